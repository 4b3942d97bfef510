"""Three meet at a barrier, reset it when time is up and come again; the one that writes to a slow disk comes at last."""

import json
import multiprocessing
import os
import threading
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def meet(barrier):
    while True:
        try:
            return barrier.wait(timeout=1.5)
        except threading.BrokenBarrierError:
            barrier.reset()
            time.sleep(0.1)


def solve(barrier, k):
    say("role", role=f"process solver-{k}")
    for step in range(100):
        if k == 2:
            time.sleep(12)
            say("settled" if step == 0 else "progress")
        meet(barrier)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    solvers = [context.Process(target=solve, args=(barrier, k), name=f"solver-{k}") for k in range(3)]
    for solver in solvers:
        solver.start()
    for solver in solvers:
        solver.join()


if __name__ == "__main__":
    main()
