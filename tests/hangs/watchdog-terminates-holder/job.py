import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def fit(number, lock, began, slow_s):
    say("role", role=f"process fit-{number}")
    if slow_s:
        say("culprit", thread="MainThread", dead=True)
    # Results are written one after the other.



    with lock:
        began.set()
        time.sleep(slow_s)


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("fork")
    lock, began = ctx.Lock(), ctx.Event()
    fits = [ctx.Process(target=fit, args=(number, lock, began, 60 * (number == 0))) for number in range(2)]
    for process in fits:

        process.start(), began.wait()
    # The first is too slow: another one takes its place.
    fits[0].join(0.5)
    fits[0].terminate()
    fits[0].join()
    fits[0] = ctx.Process(target=fit, args=(0, lock, began, 0))
    say("settled")
    fits[0].start()

    for process in fits:
        # The new one is the first.
        process.join()


if __name__ == "__main__":
    main()
