"""System calls by number, where Python has no function for them.

Some Pythons lack the functions: one built against headers older than Linux 5.3, as conda's are, has neither
`os.pidfd_open` nor `signal.pidfd_send_signal`, wherever it runs.
"""

from __future__ import annotations

import errno
import os
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PIDFD_SEND_SIGNAL, PIDFD_OPEN, OPENAT2 = 424, 434, 437
"""Numbers of the system calls, the same on all machines (asm-generic/unistd.h)."""


def call(number: int, *arguments: int | bytes) -> int:
    """Make a system call and return its result. Bytes are passed by address; a call interrupted by a signal is
    repeated.

    Raises:
        OSError: as the manual page of the call says; ENOSYS if the kernel is older than it, or a sandbox forbids it.
    """
    # Imported at the first call: the first picture of the screen, which needs no calls, should not wait for it.
    from ctypes import c_long, get_errno

    syscall = _syscall()
    given = [word if isinstance(word, bytes) else c_long(word) for word in (number, *arguments)]
    while (result := syscall(*given)) < 0:
        code = get_errno() or errno.ENOSYS
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
    return result


@cache
def _syscall() -> Callable[..., int]:
    """syscall(2) of the C library."""
    from ctypes import CDLL, c_long

    found = CDLL(None, use_errno=True).syscall
    found.restype = c_long
    return found
