"""The content of proc_pid_stat(5): the file that is read for every process of the machine."""

from __future__ import annotations

import os
import time
from operator import itemgetter

from mpmon.probes.standstill import Standstill, silent
from mpmon.probes.status import status_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.files import Proc

_FORKNOEXEC = 0x40
"""PF_FORKNOEXEC in the flags of proc_pid_stat(5): linux/sched.h."""

_USED = itemgetter(0, 1, 2, 3, 6, 8, 11, 12, 17, 19, 21)
"""Positions after the name of the fields that `Stat` has for every process; only an ending one has an exit code too."""
_LAST_USED = 21

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Stat:
    """The fields of proc_pid_stat(5) that mpmon uses."""

    __slots__ = (
        "child_faults", "cpu_s", "exit_code", "forked", "name", "pgid", "ppid", "rss_bytes", "sid", "start_ticks", "state",
        "threads",
    )  # fmt: skip

    def __init__(self, text: bytes) -> None:
        # The name may contain spaces and parentheses, so the fields are counted from the last parenthesis.
        end = text.rindex(b")")
        self.name = text[text.index(b"(") + 1 : end].decode("utf-8", "replace")
        fields = text[end + 2 :].split()
        self.state = fields[0].decode()
        self.ppid, self.pgid, self.sid = int(fields[1]), int(fields[2]), int(fields[3])
        self.forked = bool(int(fields[6]) & _FORKNOEXEC)
        self.child_faults: int | None = int(fields[8])
        self.cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
        self.threads = int(fields[17])
        self.start_ticks = int(fields[19])
        self.rss_bytes = int(fields[21]) * _PAGE
        self.exit_code = int(fields[49]) if len(fields) > 49 else None

    @property
    def ended(self) -> bool:
        """As `mpmon.model.Process.ended`."""
        return self.state in "ZX" and self.threads < 2

    def started_at(self, boot: float) -> float:
        """When the process began, seconds since the epoch, given the boot time."""
        return boot + self.start_ticks / _TICKS

    @classmethod
    def read(cls, proc: Proc, pid: int) -> Stat | None:
        """The process's fields; `None` if it is gone or the file is cut."""
        try:
            return cls(proc.read(pid, "stat"))
        except Standstill:
            return cls._told_otherwise(proc, pid)
        except (OSError, ValueError, IndexError):
            return None

    @classmethod
    def _told_otherwise(cls, proc: Proc, pid: int) -> Stat | None:
        """The same for a `silent` process, from proc_pid_status(5), statm and schedstat.

        Only `stat` tells its start time. If that was never read, it began before now.
        """
        try:
            fields = status_fields(proc.text(pid, "status"))
            pages, spent = proc.text(pid, "statm").split(), proc.text(pid, "schedstat").split()
            stat = cls.__new__(cls)
            stat.name, stat.state = fields["Name"], fields["State"][0]
            stat.ppid, stat.threads = int(fields["PPid"]), int(fields["Threads"])
            stat.pgid, stat.sid = (int(fields[name].split()[0]) for name in ("NSpgid", "NSsid"))
            stat.rss_bytes, stat.cpu_s = int(pages[1]) * _PAGE, int(spent[0]) / 1e9
        except (OSError, ValueError, KeyError, IndexError):
            return None
        stat.forked, stat.exit_code, stat.child_faults = False, None, None
        known = silent.get(pid)
        stat.start_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS) if known is None else known
        silent[pid] = stat.start_ticks
        return stat


def facts(text: bytes) -> tuple[bytes, ...]:
    """The raw fields that `Stat` uses for a process that has not ended; nothing for one that has.

    Most other fields are unused, and the CPU it last ran on changes all the time.
    """
    name, _, fields = text.rpartition(b")")
    used = _USED(fields.split(None, _LAST_USED + 1))
    return () if used[0] in b"ZX" else (name, *used)


def boot_time(proc: Proc) -> float:
    """When the machine started, seconds since the epoch (`btime` of proc_stat(5)); 0 if it cannot be read."""
    try:
        lines = proc.read("stat", limit=1 << 20).splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(b"btime ")), 0.0)
