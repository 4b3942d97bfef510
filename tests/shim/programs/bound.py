"""Run a program as root that is bound by permissions of files as anybody is: `bound.py PROGRAM ARGUMENTS`."""

import ctypes
import os
import sys

DROP_FROM_BOUNDING_SET, DAC_OVERRIDE, DAC_READ_SEARCH = 24, 1, 2
"""prctl.h: PR_CAPBSET_DROP; capability.h. It counts from the next execve(2) on."""

libc = ctypes.CDLL(None, use_errno=True)
for capability in (DAC_OVERRIDE, DAC_READ_SEARCH):
    if libc.prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
