"""A thread loads a library whose constructor does not return; the main thread, which loads another one, waits for the lock."""

import ctypes
import os
import sys
import threading
from pathlib import Path

from ready import say

hangs, other = sys.argv[1:]
load = ctypes.CDLL(None).dlopen
first = threading.Thread(target=load, args=(hangs.encode(), os.RTLD_NOW), name="plugins", daemon=True)
first.start()
while "loads_for_ever" not in Path("/proc/self/maps").read_text():
    pass
say(ready=os.getpid())
load(other.encode(), os.RTLD_NOW)  # STUCK
