"""What the programs here have in common: nothing else would end them if the test were killed."""

import ctypes
import signal

PR_SET_PDEATHSIG = 1


def end_with_parent():
    """prctl(2); a fork has to ask for it again."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
