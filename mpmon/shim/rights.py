"""Letting mpmon read this process where the kernel's Yama module allows only ancestors (ptrace_scope 1)."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCOPE = "/proc/sys/kernel/yama/ptrace_scope"

PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = -1
"""<linux/prctl.h>: every process of the same user may read it, as without Yama."""


class _Wish:
    """Whether it was requested: forked children must request it again."""

    asked = False
    prctl: Any = None
    """Found once, in the parent: a child must not wait for the lock of the dynamic linker."""


def let_mpmon_look() -> None:
    """Call PR_SET_PTRACER(2const), if it makes a difference."""
    if _Wish.asked or not _is_restricted():
        return
    _Wish.asked = True
    _Wish.prctl = _find_prctl()
    _allow()
    os.register_at_fork(after_in_child=_allow)


def _is_restricted() -> bool:
    try:
        with open(SCOPE, "rb") as scope:
            return scope.read().strip() == b"1"
    except OSError:
        return False


def _find_prctl() -> Any:
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
    except (ImportError, OSError, AttributeError):
        return None
    return prctl


def _allow() -> None:
    if _Wish.prctl is not None:
        _Wish.prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
