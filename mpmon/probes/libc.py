"""System calls by number, for those that Python has no function for.

Or not everywhere: a Python that was built against headers older than Linux 5.3, as those of conda are, has neither
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
    """A system call; its result. Bytes are passed by their address; one that a signal has interrupted is made again.

    Raises:
        OSError: as the manual page of the call says; ENOSYS where the kernel is older than it, or a sandbox forbids it.
    """
    # Imported at the first call: the first picture of the screen, which needs none, should not wait for it.
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
