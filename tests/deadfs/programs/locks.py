"""Hangs in a lock, and has to do with a file system that has stopped answering: `locks.py PLACE WHAT`.

Its main thread waits for a lock of a thread that sleeps; what a third thread does there has no part in it.
"""

import ctypes
import mmap
import os
import sys
import threading
import time

from lives import end_with_parent
from ready import say, wait_for_word

DATA_BYTES = 16 << 20
FAR = DATA_BYTES // 2
"""Where nobody has read before, so that the kernel has to ask."""


def descriptor(place):
    file = os.open(f"{place}/data.bin", os.O_RDONLY)
    return lambda: file


def read(place):
    file = os.open(f"{place}/data.bin", os.O_RDONLY)
    return lambda: os.pread(file, 1, FAR)


def opens(place):
    return lambda: os.open(f"{place}/small.txt", os.O_RDONLY)


def fault(place):
    """Without the lock of the interpreter, as a library that reads an array."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    file = os.open(f"{place}/data.bin", os.O_RDONLY)
    address = libc.mmap(None, DATA_BYTES, mmap.PROT_READ, mmap.MAP_PRIVATE, file, 0)
    os.close(file)
    return lambda: libc.memcmp(address + FAR, address + FAR, 1)


def work(act):
    lock, taken = threading.Lock(), threading.Event()

    def hold():
        with lock:
            taken.set()
            time.sleep(1e6)

    threading.Thread(target=hold, daemon=True).start()
    taken.wait()
    say(ready=True)
    wait_for_word()
    threading.Thread(target=act, daemon=True).start()
    with lock:  # STUCK
        pass


if __name__ == "__main__":
    end_with_parent()
    work(globals()[sys.argv[2]](sys.argv[1]))
