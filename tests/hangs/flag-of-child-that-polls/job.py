import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time

CTX = mp.get_context("fork")
BUILT = CTX.Value("i", 0)


def build_index():
    say("role", role="process build_index")
    say("culprit", thread="MainThread")
    state = {"shards": 0, "complete": False}
    for _ in range(4):
        state["shards"] += 1
        time.sleep(0.1)
    say("settled")
    while not state["complete"]:
        time.sleep(0.3)  # CULPRIT
    BUILT.value = 1


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    CTX.Process(target=build_index).start()
    while BUILT.value == 0:
        time.sleep(0.2)
