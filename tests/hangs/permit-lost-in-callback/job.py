import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import threading
from concurrent.futures import ThreadPoolExecutor

permits = threading.BoundedSemaphore(2)
scores = []


def score(text):
    return None if text.startswith("#") else len(text)


def finished(future):
    scores.append(100 / future.result())
    permits.release()


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    with ThreadPoolExecutor(2) as pool:
        for n, text in enumerate(["a", "bb", "# one", "ccc", "# two", "dddd", "eeeee"]):
            if n == 5:
                say("settled")
            permits.acquire()  # CULPRIT
            pool.submit(score, text).add_done_callback(finished)


main()
