import json
import multiprocessing as mp
import os
from concurrent.futures import ThreadPoolExecutor

IO = ThreadPoolExecutor(2, thread_name_prefix="io")


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def size(path):
    return os.stat(path).st_size


def sizes(number_and_paths):
    number, paths = number_and_paths
    say("role", role=f"pool worker {number}")
    say("culprit", thread="MainThread", all=True)
    if number == 2:
        say("settled")

    return sum(future.result() for future in [IO.submit(size, path) for path in paths])  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    print([future.result() for future in [IO.submit(size, path) for path in ("/", "/usr")]])
    work = [(1, ["/", "/usr"]), (2, ["/etc", "/tmp"])]
    with mp.get_context("fork").Pool(2) as pool:
        # One task at a time, so that each of the two workers gets one.
        parts = pool.map_async(sizes, work, chunksize=1)
        say("waiter")

        print(sum(parts.get()))


if __name__ == "__main__":
    main()
