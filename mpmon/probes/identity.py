"""Whether a pid is still the process of a row: the kernel reuses pids, but not pid and start time together."""

from __future__ import annotations

from mpmon.probes.standstill import persistently
from mpmon.probes.stat import Stat, boot_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.model import Process
    from mpmon.probes.files import Proc


class Identity:
    """Compares start times; the machine's boot time is read once.

    Made when the watch begins: the boot time of proc_stat(5) moves when the clock is set, and it is part of the rows'
    start times.
    """

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._boot = boot_time(proc)

    def stat(self, process: Process) -> Stat | None:
        """The state of this very process now; `None` if it is gone, even if its pid was reused."""
        stat = persistently(lambda: Stat.read(self._proc, process.pid))
        return stat if stat and stat.started_at(self._boot) == process.start_time else None
