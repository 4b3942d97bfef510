import json
import os
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

SLOTS = threading.Semaphore(2)


def send(name):
    if name == "b.bin":
        say("culprit", all=True)
        say("settled")
    time.sleep(0.05 if name == "a.bin" else 86400)  # CULPRIT


def upload(name):
    with SLOTS:
        send(name)


def main():
    say("root")
    say("role", role="main")
    uploads = [threading.Thread(target=upload, args=(name,), name=name) for name in ("a.bin", "c.bin", "b.bin", "d.bin")]
    for thread in uploads:
        thread.start()
        time.sleep(0.2)
    uploads[-1].join()


main()
