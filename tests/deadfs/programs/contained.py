"""Reads from a file system that only its own mount namespace has, and that has stopped answering: `contained.py PLACE`."""

import ctypes
import os
import sys

from ready import say, wait_for_word

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000

if __name__ == "__main__":
    libc = ctypes.CDLL(None)
    assert libc.unshare(CLONE_NEWNS) == 0
    assert libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0
    say(alone=True)
    wait_for_word()
    file = os.open(f"{sys.argv[1]}/data.bin", os.O_RDONLY)
    say(ready=True)
    wait_for_word()
    os.pread(file, 4096, 8 << 20)  # STUCK
