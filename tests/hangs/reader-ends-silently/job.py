import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def read(count, rows):
    say("role", role="process read"), say("culprit", thread="MainThread", dead=True)
    for number in range(count):
        time.sleep(0.02), rows.put(number)  # and no stop mark at the end


def store(count, rows):
    say("role", role="process store")
    while rows.get() is not None:
        count -= 1
        if count == 0:
            say("settled")


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("fork")
    rows = ctx.Queue()
    for process in [ctx.Process(target=target, args=(50, rows)) for target in (read, store)]:
        process.start()
    process.join()


if __name__ == "__main__":
    main()
