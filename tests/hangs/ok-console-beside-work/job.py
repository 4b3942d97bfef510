import json
import multiprocessing as mp
import os
import random
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def own_terminal():
    """As if started in a terminal; nobody types there."""
    master, slave = os.openpty()
    os.dup2(slave, 0)
    os.close(slave)
    return master


def tune(k, stop):
    say("role", role=f"process tuner-{k}")
    rng, best = random.Random(k), float("inf")
    for n in range(10 ** 9):
        if stop.is_set():
            return
        loss = min(rng.gauss(1, 0.2) ** 2 for _ in range(20000))
        best = min(best, loss)
        with open(f"tuner-{k}.log", "a") as f:
            f.write(f"{n} {best}\n")
        say("progress")
        if n == 1 and k == 0:
            say("settled")
        time.sleep(1.5)


def main():
    say("root")
    say("role", role="main")
    terminal = own_terminal()
    ctx = mp.get_context("fork")
    stop = ctx.Event()
    tuners = [ctx.Process(target=tune, args=(k, stop)) for k in range(2)]
    for p in tuners:
        p.start()
    while (line := input("tuner> ")) != "quit":
        print({"state": [p.is_alive() for p in tuners]}.get(line, "what?"))
    stop.set()
    for p in tuners:
        p.join()
    os.close(terminal)


if __name__ == "__main__":
    main()
