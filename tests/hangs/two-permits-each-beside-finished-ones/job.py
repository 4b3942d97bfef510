import json
import multiprocessing as mp
import os
import time

ctx = mp.get_context("fork")

def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Slots:
    """Counting semaphore over the accelerators of this host."""

    def __init__(self, n):
        self.sem = ctx.Semaphore(n)

    def take(self, count, load):
        self.sem.acquire()
        load()
        for _ in range(count - 1):
            announce()
            self.sem.acquire()  # CULPRIT

    def give(self, count):
        for _ in range(count):
            self.sem.release()


heavy = False


def announce():
    if heavy:
        say("culprit", thread="MainThread")
        say("settled")


def load_weights():
    time.sleep(1.0)


def fold(k, slots, results, need, delay):
    global heavy
    say("role", role=f"process fold-{k}")
    heavy = need > 1 and k < 2
    time.sleep(delay)
    if k in (2, 3):
        say("waiter")
    slots.take(need, load_weights)
    try:
        time.sleep(0.5)
        results.put((k, 0.9))
    finally:
        slots.give(need)


def main():
    say("root")
    say("role", role="main")
    slots, results = Slots(2), ctx.Queue()
    # warm-up folds need one device only
    warm = [ctx.Process(target=fold, args=(k, slots, results, 1, 0)) for k in (8, 9)]
    for p in warm:
        p.start()
    for p in warm:
        print("warm-up", results.get())
        p.join()
    folds = [ctx.Process(target=fold, args=(k, slots, results, 2, 0 if k < 2 else 0.6)) for k in range(4)]
    for p in folds:
        p.start()
    say("waiter")
    print(sorted(results.get() for _ in folds))


if __name__ == "__main__":
    main()
