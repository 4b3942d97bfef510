"""Threads that never rest: short calls, deep ones, ones from C, naps; says when all of them run."""

import threading
import time


def leaf(number):
    return number * 2


def middle(number):
    total = 0
    for place in range(number):
        total += leaf(place)
    return total


def calls():
    while True:
        middle(5)


def down(depth):
    return down(depth - 1) if depth else leaf(1)


def recursion():
    while True:
        down(12)


def numbers():
    for number in range(20):
        yield leaf(number)


def generators():
    while True:
        sum(numbers())


def sorting():
    while True:
        sorted(range(20), key=lambda number: -number)


def naps():
    while True:
        time.sleep(0.0005)


def code():
    while True:
        exec(compile("def made():\n\n    return 1\nmade()", "made", "exec"), {})


WORKS = (calls, recursion, generators, sorting, naps, code)

for work in WORKS:
    threading.Thread(target=work, daemon=True, name=work.__name__).start()
print("ready", flush=True)
input()
