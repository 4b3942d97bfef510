import json
import multiprocessing as mp
import os
import queue
import threading
import time

def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

OUT = queue.Queue(maxsize=16)


def init():
    say("role", role=f"pool worker {mp.current_process()._identity[0]}")
    say("waiter")


def tile(k):
    return k, [k * k % 17] * 100


def keep(result):
    if OUT.full():
        say("culprit", thread=threading.current_thread().name)
        say("settled")
    OUT.put(result)  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    pool = mp.get_context("fork").Pool(2, initializer=init)
    for k in range(40):
        pool.apply_async(tile, (k,), callback=keep)
    pool.close()
    pool.join()  # CULPRIT
    image = {}
    while not OUT.empty():
        k, rows = OUT.get()
        image[k] = rows
    print(len(image))


if __name__ == "__main__":
    main()
