"""Works on, and only has something on a file system that has stopped answering: `idle.py PLACE WHAT`."""

import ctypes
import gc
import mmap
import os
import sys
import time

from lives import end_with_parent
from ready import say

DATA_BYTES = 16 << 20
ITEMS = 1000
ITEMS_AT = 24
"""PyListObject.ob_item."""


def nothing(place):
    return None


def descriptor(place):
    return os.open(f"{place}/data.bin", os.O_RDONLY)


def folder(place):
    os.chdir(place)


def first(place):
    return with_item(place, 0)


def last(place):
    return with_item(place, ITEMS - 1)


def with_item(place, index):
    """A list of numbers of which one lies in a mapped file, where nobody has read; the file is not open any more."""
    file = os.open(f"{place}/data.bin", os.O_RDONLY)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    address = libc.mmap(None, DATA_BYTES, mmap.PROT_READ, mmap.MAP_PRIVATE, file, 0)
    os.close(file)
    # Whoever follows the list reads there, the garbage collector too.
    gc.disable()
    items = [0] * ITEMS
    begin = ctypes.c_void_p.from_address(id(items) + ITEMS_AT).value
    ctypes.c_void_p.from_address(begin + index * ctypes.sizeof(ctypes.c_void_p)).value = address + DATA_BYTES // 2
    return items


def step(number):
    """It takes memory and gives it back, for which it needs the lock that guards its mappings."""
    with mmap.mmap(-1, 1 << 20) as room:
        room[0] = number % 256
    return sum(number * each for each in range(2000))


def work(had):
    say(ready=True)
    number = 0
    while True:
        step(number)
        number += 1
        time.sleep(0.01)


if __name__ == "__main__":
    end_with_parent()
    work(globals()[sys.argv[2]](sys.argv[1]))
