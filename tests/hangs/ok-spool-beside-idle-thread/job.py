import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import os
import threading
import time

SLOTS = threading.Semaphore(0)


def drain():
    while True:
        SLOTS.acquire()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    threading.Thread(target=drain, daemon=True).start()
    os.makedirs("spool", exist_ok=True)
    say("settled")
    while not os.path.exists("stop"):
        for name in os.listdir("spool"):
            os.unlink(os.path.join("spool", name))
        time.sleep(0.5)
