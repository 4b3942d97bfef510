import json
import os
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


LOCK = threading.Lock()


def note(held, go):
    with LOCK:
        held.set()
        go.wait()
    while True:
        with LOCK:
            time.sleep(0.01)
        time.sleep(0.5)


def main():
    say("root")
    say("role", role="main")
    held, go = threading.Event(), threading.Event()
    threading.Thread(target=note, args=(held, go), daemon=True).start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        say("role", role="process child of main")
        say("culprit")
        say("settled")
        with LOCK:  # CULPRIT
            pass
        os._exit(0)
    go.set()
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
