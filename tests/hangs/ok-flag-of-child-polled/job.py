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
TAKEN = CTX.Event()


def build_index():
    for number in range(1000):
        time.sleep(4)
        BUILT.value = number + 1
        TAKEN.wait()
        TAKEN.clear()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    CTX.Process(target=build_index, daemon=True).start()
    say("settled")
    for number in range(1000):
        while BUILT.value <= number:
            time.sleep(0.2)
        TAKEN.set()
