"""A supervisor terminates a worker that is late, while it holds a lock of the manager."""

import json
import multiprocessing as mp
import os
import time


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def store(k, lock, table):
    say("role", role=f"process store {k}")
    while True:
        with lock:
            table[k] = table.get(k, 0) + 1
            if k == 1 and table[k] == 5:
                say("culprit", dead=True)
                time.sleep(3600)
        time.sleep(0.05)


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("fork")
    manager = ctx.Manager()
    lock, table = manager.Lock(), manager.dict()
    workers = [ctx.Process(target=store, args=(k, lock, table), name=f"store-{k}") for k in range(4)]
    for worker in workers:
        worker.start()
    time.sleep(2)
    late = workers.pop(1)
    late.terminate()
    late.join()
    del late
    say("settled")
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
