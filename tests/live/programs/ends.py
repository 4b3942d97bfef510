"""A script that ends, in a program that does not: `ends.py LIBRARY`."""

import ctypes
import os
import sys

from ready import say

ctypes.CDLL(sys.argv[1])
say(ready=os.getpid())
