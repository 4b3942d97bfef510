"""The main thread waits in a function of a C library for native threads of that library: `helpers.py LIBRARY FUNCTION WORKS`."""

import ctypes
import os
import sys

from ready import say

library, function, works = sys.argv[1:]
call = getattr(ctypes.CDLL(library), function)
say(ready=os.getpid())
call(int(works))  # STUCK
