import ctypes
import json
import multiprocessing
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
ptrace = ctypes.CDLL(None).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def sample(pid, gap_s):
    say("role", role="process sampler")
    say("culprit", thread="MainThread")
    time.sleep(1)
    say("settled")
    ptrace(SEIZE, pid, None, None)
    ptrace(INTERRUPT, pid, None, None)
    os.waitpid(pid, WALL)
    time.sleep(gap_s)  # CULPRIT
    ptrace(DETACH, pid, None, None)


def compute(numbers, squares):
    say("role", role="process compute")
    say("waiter")
    while True:
        squares.put(numbers.get() ** 2)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    context = multiprocessing.get_context("fork")
    numbers, squares = context.Queue(), context.Queue()
    worker = context.Process(target=compute, args=(numbers, squares), name="compute", daemon=True)
    worker.start()
    # 250 ms were meant.
    context.Process(target=sample, args=(worker.pid, 250), name="sampler", daemon=True).start()
    while True:
        numbers.put(2)
        squares.get()
        time.sleep(0.05)


if __name__ == "__main__":
    main()
