"""Four meet at a barrier, reset it when time is up and come again; one has taken the first reset for the end of the run."""

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

def meet(barrier, name):
    late = 0
    while True:
        try:
            return barrier.wait(timeout=1.5)
        except threading.BrokenBarrierError:
            late += 1
            if late % 20 == 0:
                print(f"{name}: somebody is late", flush=True)
            barrier.reset()
            time.sleep(0.1)


def solve(barrier, k):
    say("role", role=f"process solver-{k}")
    for step in range(100):
        if step == 3 and k == 1:
            time.sleep(2)
        if k != 2:
            if step == 3:
                say("waiter")
            meet(barrier, f"solver-{k}")
            continue
        try:
            barrier.wait(timeout=1.5)
        except threading.BrokenBarrierError:
            say("culprit", dead=True)
            say("settled")
            return


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    solvers = [context.Process(target=solve, args=(barrier, k), name=f"solver-{k}") for k in range(4)]
    for solver in solvers:
        solver.start()
    for solver in solvers:
        solver.join()


if __name__ == "__main__":
    main()
