"""Whether code and exceptions are the shim's or the job's: the shim's must stay hidden, the job's must pass through.

A signal handler of the job, such as one that implements a timeout, may raise at any line of a hook, and so may another
thread (PyThreadState_SetAsyncExc).
"""

from __future__ import annotations

import os

_OWN = os.path.join(os.path.dirname(__file__), "")
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
_FROZEN = "<frozen "
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_MODULES = ("builtins", "struct")
"""Modules that define the exceptions raised by the shim and by the standard library functions it calls."""


def is_own(file: str) -> bool:
    """Whether it is the shim's."""
    return file.startswith(_OWN)


def is_standard(file: str) -> bool:
    """Whether it is the standard library's."""
    inside = file.startswith(_STANDARD_LIBRARY) and not any(packages in file for packages in _PACKAGES)
    return inside or file.startswith(_FROZEN)


def is_from_job(problem: BaseException) -> bool:
    """Whether an exception that was caught in a hook only passes through it, on its way to the job."""
    trace = problem.__traceback__
    files: list[str] = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return type(problem).__module__ not in _MODULES or not all(is_own(file) or is_standard(file) for file in files)
