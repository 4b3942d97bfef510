import json
import os
import threading
import time

LOCK, TAKEN = threading.Lock(), threading.Event()


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def flush():
    """Sends the metrics now and then."""
    with LOCK:
        TAKEN.set()

        time.sleep(86400)


def main():
    threading.Thread(target=flush, name="flush", daemon=True).start()
    TAKEN.wait()
    pid = os.fork()
    if pid == 0:
        say("role", role="process child"), say("culprit", thread="MainThread"), say("settled")


        with LOCK:  # CULPRIT
            os._exit(0)

    os.waitpid(pid, 0)


say("root"), say("role", role="main"), main()
