import json
import multiprocessing as mp
import os

LOCK = None


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def share(lock):
    global LOCK
    LOCK = lock


def book(amount):
    """Enters it in the books."""


    LOCK.acquire()
    if amount < 0:
        # Nobody gives the lock back.
        raise ValueError(amount)
    LOCK.release()
    return amount


def first(amount):
    say("role", role="pool worker 1"), say("culprit", thread="MainThread")
    return book(amount)


def second(amount):
    say("role", role="pool worker 2"), say("settled")


    return book(amount)


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("fork")


    pool = ctx.Pool(2, share, (ctx.Lock(),))
    failed = pool.apply_async(first, (-1,))
    failed.wait()
    booked = pool.apply_async(second, (5,))
    print(booked.get())
    pool.close()
    pool.join()


if __name__ == "__main__":
    main()
