"""Stands in one call on a file system that has stopped answering: `stands.py PLACE CALL`.

It opens and maps what it needs, says that it is ready, and makes the call after a word.
"""

import ctypes
import mmap
import os
import sys
import threading
import time

from ready import say, wait_for_word

PAGE = mmap.PAGESIZE
DATA_BYTES = 16 << 20
FAR = DATA_BYTES // 2
"""Where nobody has read before, so that the kernel has to ask."""

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def wait():
    say(ready=True)
    wait_for_word()


def read(place):
    """Past the page cache: it waits for the server itself, in state S."""
    file = os.open(f"{place}/data.bin", os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, PAGE)
    wait()
    os.preadv(file, [page], FAR)  # STUCK read


def cached(place):
    """As everybody reads: it waits for a page of the cache, in state D."""
    file = os.open(f"{place}/data.bin", os.O_RDONLY)
    wait()
    os.pread(file, PAGE, FAR)  # STUCK cached


def opens(place):
    wait()
    os.open(f"{place}/small.txt", os.O_RDONLY)  # STUCK opens


def closes(place):
    file = os.open(f"{place}/data.bin", os.O_RDONLY)
    wait()
    os.close(file)  # STUCK closes


def fault(place):
    """In no system call at all."""
    with open(f"{place}/data.bin", "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    wait()
    mapping[FAR]  # STUCK fault


def flush(place):
    """What it has written has to reach the server first."""
    with open(f"{place}/small.txt", "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    mapping[0]
    wait()
    mapping[0] = 1
    mapping.close()  # STUCK flush


def remap(place):
    """A thread waits for a page of a mapped file.  The main thread maps that file once more and waits for the same page, but with
    the lock that guards all mappings of the process: whoever reads its memory, its command line or its environment waits too.
    """
    file = os.open(f"{place}/direct.bin", os.O_RDONLY)
    address = map_file(file)
    wait()
    threading.Thread(target=libc.memcmp, args=(address + FAR, address + FAR, 1)).start()
    while "folio" not in kernel_functions():
        time.sleep(0.01)
    map_file(file)  # STUCK remap


def map_file(file):
    """mmap(2), without asking for the size first as Python's own does."""
    return libc.mmap(None, DATA_BYTES, mmap.PROT_READ, mmap.MAP_PRIVATE, file, 0)


def kernel_functions():
    """Where the threads of this process wait."""
    return " ".join(open(f"/proc/self/task/{tid}/wchan").read() for tid in os.listdir("/proc/self/task"))


def leaves(place):
    """It ends, and the kernel closes its files when it has no memory any more."""
    os.open(f"{place}/data.bin", os.O_RDONLY)
    wait()
    os._exit(0)


if __name__ == "__main__":
    globals()[sys.argv[2]](sys.argv[1])
