import json
import os
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

SLOTS = threading.BoundedSemaphore(2)


def download(n):
    while True:
        with SLOTS:
            time.sleep(6)


def main():
    say("root")
    say("role", role="main")
    threads = [threading.Thread(target=download, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    say("settled")
    for thread in threads:
        thread.join()


main()
