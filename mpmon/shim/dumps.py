"""Stacks on demand, for places where mpmon may not look into a process: it writes them itself when a signal comes.

Off unless `MPMON_DUMP_STACKS` is set: a signal may wake the job, and the process keeps one more file open.
faulthandler writes from the signal handler, without the GIL, so a hang with the GIL held is no obstacle.
The signal is SIGURG, which a process without a handler ignores (signal(7)): sent to the wrong one it does no harm.
"""

from __future__ import annotations

import os

from . import places


def listen() -> None:
    """Write stacks from now on, here and in children that are forked; not where the job uses the signal itself."""
    import signal

    if signal.getsignal(signal.SIGURG) is signal.SIG_DFL:
        _register()
        os.register_at_fork(after_in_child=_register)


def _register() -> None:
    """A child that was forked has its parent's file until it gets its own."""
    import faulthandler
    import signal

    try:
        path = os.path.join(places.run_folder(), places.Name.own().file(places.STACKS))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        faulthandler.register(signal.SIGURG, file=os.open(path, flags, 0o600), all_threads=True)
    except (OSError, ValueError, RuntimeError):
        faulthandler.unregister(signal.SIGURG)
