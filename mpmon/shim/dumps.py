"""Stacks on demand, where mpmon may not read a process: the process writes them itself on a signal.

Off unless `MPMON_DUMP_STACKS` is set: a signal may wake the job, and the process keeps one more file open.
faulthandler writes from the signal handler, without the GIL, so a hang with the GIL held is no obstacle.
The signal is SIGURG, which a process without a handler ignores (signal(7)): sent to the wrong one it does no harm.
"""

from __future__ import annotations

import os

from . import places


class _File:
    """The open file: its descriptor, and its os.fstat result."""

    descriptor = -1
    status: os.stat_result | None = None


def listen() -> None:
    """Write stacks from now on, here and in forked children, unless the job uses the signal itself."""
    _register()
    os.register_at_fork(after_in_child=_register)


def _register() -> None:
    """Open this process's own file and install the handler; a forked child has its parent's file until then."""
    import faulthandler
    import signal

    if signal.getsignal(signal.SIGURG) is not signal.SIG_DFL:
        return
    try:
        descriptor = _make_file()
        faulthandler.register(signal.SIGURG, file=descriptor, all_threads=True)
    except (OSError, ValueError, RuntimeError):
        faulthandler.unregister(signal.SIGURG)
        descriptor = -1
    _close_parents()
    _File.descriptor = descriptor
    _File.status = os.fstat(descriptor) if descriptor >= 0 else None


def _make_file() -> int:
    _, folder = places.open_folder()
    try:
        return places.make_file(places.Name.own().file(places.STACKS), folder, os.O_WRONLY | os.O_APPEND)
    finally:
        os.close(folder)


def _close_parents() -> None:
    """Close the parent's file, unless the job has closed it and its number has been reused."""
    try:
        if _File.status is not None and os.path.samestat(_File.status, os.fstat(_File.descriptor)):
            os.close(_File.descriptor)
    except OSError:
        return
