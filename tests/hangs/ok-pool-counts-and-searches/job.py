"""Two workers look for the best of many random layouts; each writes what it found."""
import json
import multiprocessing as mp
import os
import random


def say(event, **more):
    with open(os.environ["CORPUS_TRUTH"], "a") as f:
        f.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")


def primes(limit):
    say("role", role="pool worker 0")
    found, number = 0, 2
    while number < limit:
        part = 2
        while part * part <= number and number % part:
            part += 1
        found += part * part > number
        number += 1
    return found


def queens(size, row=0, columns=0, left=0, right=0):
    if row == 0:
        say("role", role="pool worker 0")
    if row == size:
        return 1
    free, found = ((1 << size) - 1) & ~(columns | left | right), 0
    while free:
        bit = free & -free
        free ^= bit
        found += queens(size, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return found


def call(task):
    work, size = task
    return work(size)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("settled")
    with mp.get_context("fork").Pool(2) as pool:
        print(pool.map(call, [(primes, 10**10), (queens, 20)], chunksize=1))
