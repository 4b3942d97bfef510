"""Main waits for results of one pool, whose tasks take seconds, while the workers of an executor that it has as well are idle."""

import concurrent.futures
import json
import multiprocessing as mp
import os
import time

from pebble import ProcessPool


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def square(number):
    return number * number


def audit(month):
    time.sleep(7)
    return month


def main():
    say("root")
    say("role", role="main")
    context = mp.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        print(sum(executor.map(square, range(100))))
        with ProcessPool(2, context=context) as pool:
            say("settled")
            while True:
                futures = [pool.schedule(audit, args=(month,)) for month in range(4)]
                print([future.result() for future in futures])


if __name__ == "__main__":
    main()
