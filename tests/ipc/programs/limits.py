"""A process that uses up one of its limits: `limits.py maps`, `limits.py addresses`."""

import ctypes
import json
import mmap
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

NO_RESERVE = 0x4000
"""mman.h: MAP_NORESERVE."""


def reserve(length):
    address = libc.mmap(None, length, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE, -1, 0)
    return None if address in (None, ctypes.c_void_p(-1).value) else address


def maps():
    """Every other page of one area has other rights, so that each is a mapping of its own."""
    with open("/proc/sys/vm/max_map_count", encoding="utf-8") as file:
        count = int(int(file.read()) * 0.95)
    start = reserve(count * mmap.PAGESIZE)
    for page in range(0, count - 200, 2):
        libc.mprotect(start + page * mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ)


def addresses():
    """As receivers of expandable segments reserve them: a whole GPU and an eighth more for each."""
    for _ in range(106):
        assert reserve(9 << 37)


globals()[sys.argv[1]]()
print(json.dumps({"done": sys.argv[1]}), flush=True)
sys.stdin.readline()
