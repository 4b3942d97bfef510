import fcntl
import json
import multiprocessing as mp
import os
from contextlib import contextmanager


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


@contextmanager
def locked(says=""):
    with open("cache.lock", "w") as file:
        if says:
            say(says, thread="MainThread")


        fcntl.flock(file, fcntl.LOCK_EX)  # CULPRIT
        yield


def update_index(number):
    with locked(says="culprit"):
        with open("index", "a") as file:
            file.write(f"{number}\n")


def pack(count, packing):
    """Packs shards into the cache, one after the other."""
    say("role", role="process packer")
    for number in range(count):
        with locked():
            with open(f"shard-{number}", "wb") as file:
                file.write(bytes(1000))
            packing.set()

            update_index(number)


def read(packing):
    """Reads what is there."""
    say("role", role="process reader")
    packing.wait()
    say("settled")

    with locked():
        print(os.listdir("."))


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("fork")
    packing = ctx.Event()
    processes = [ctx.Process(target=pack, args=(4, packing)), ctx.Process(target=read, args=(packing,))]
    for process in processes:

        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
