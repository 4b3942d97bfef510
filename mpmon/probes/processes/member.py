"""One process of the job: its row and those of its threads, read again only if it has run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mpmon.model import Process
from mpmon.probes.aside import Unanswered, may_hang
from mpmon.probes.files import Proc
from mpmon.probes.processes.threads import Threads
from mpmon.probes.processes.traits import Traits
from mpmon.probes.standstill import Standstill, silent
from mpmon.probes.stat import Stat, facts
from mpmon.probes.status import first_int, status_fields


class Member:
    """The last state of one process."""

    def __init__(self, proc: Proc, pid: int, stat: Stat, boot: float, users: Mapping[int, str]) -> None:
        """`boot` is when the machine started, seconds since the epoch; `users` are names by id."""
        self._proc = proc
        self.pid = pid
        self.threads = Threads(proc, pid)
        self._boot = boot
        self.start_ticks = stat.start_ticks
        """When the process began, clock ticks since boot; until that can be read, when it was first seen."""
        self._silent = pid in silent
        self._stat_path = proc.path(pid, "stat")
        self._io_path = proc.path(pid, "io")
        self._stat_text = b""
        self._facts: tuple[bytes, ...] = ()
        """The facts in `_stat_text`."""
        self._io_text = b""
        self._traits = Traits(proc, pid, users)
        self._fixed = self._traits.read()
        if stat.ended and self._fixed["cgroup"] == "/":
            # cgroup v1 shows `/` for every process that has ended, whatever its group was.
            self._fixed["cgroup"] = None
        self.row = self._build(stat, stat.started_at(boot))

    @property
    def unreadable(self) -> str:
        """Why not everything may be read; empty if everything may."""
        return self._traits.unreadable

    def refresh(self, *, ran: bool, clock: int | None = None) -> bool:
        """Read again what changes, the threads only if they `ran`; False when the process is gone.

        `clock` is the CPU time of all threads together, nanoseconds, if known.
        """
        try:
            text = self._proc.reread(self._stat_path)
        except Standstill:
            return self._refresh_silent()
        except OSError:
            return False
        threads_changed = (ran or text != self._stat_text) and self._refresh_threads(clock)
        if text == self._stat_text and not threads_changed:
            return True
        before, self._facts = self._facts, facts(text)
        if self._facts == before and self._is_settled:
            self._stat_text = text
            self._renew_io()
            return True
        stat = Stat(text)
        answers_again, self._silent = self._silent, False
        if answers_again:
            self.start_ticks = stat.start_ticks
        if stat.start_ticks != self.start_ticks:
            return False
        if answers_again or self._may_have_new_traits(stat):
            self._fixed = {**self._fixed, **self._traits.read()}
        self._read_io()
        self._stat_text = text
        row = self._build(stat, stat.started_at(self._boot))
        self.row = row if row != self.row else self.row
        if len(self.threads) != stat.threads or stat.ended:
            self._refresh_threads()
        return True

    @property
    def _is_settled(self) -> bool:
        """Whether it has not ended, and equal facts make the same row except for I/O, as its traits still hold."""
        known = not self._silent and any(self.row.cmdline or ()) and len(self.threads) == self.row.threads
        return known and bool(self._facts)

    def _renew_io(self) -> None:
        """Read the I/O counters, and make another row if they have changed."""
        before = self._io_text
        self._read_io()
        if self._io_text != before:
            row = msgspec.structs.replace(self.row, **_io_counters(self._io_text))
            self.row = row if row != self.row else self.row

    def _refresh_silent(self) -> bool:
        """Read what the kernel still answers about a process for which most reads block; False when it is gone."""
        stat = Stat.read(self._proc, self.pid)
        if stat is None:
            return False
        row = self._build(stat, self.row.start_time)
        self.row = row if row != self.row else self.row
        self._refresh_threads()
        return True

    def _may_have_new_traits(self, stat: Stat) -> bool:
        """Whether it was renamed, is in the middle of an exec and shows no arguments, or was stopped or continued."""
        words = self.row.cmdline
        in_exec = words is not None and not any(words) and not stat.ended
        stopped = stat.state != self.row.state and bool({stat.state, self.row.state} & set("Tt"))
        return stat.name != self.row.name or in_exec or stopped

    def _refresh_threads(self, clock: int | None = None) -> bool:
        """Whether any thread ran, began or ended."""
        if self.row.ended:
            self.threads.drop()
            return False
        return self.threads.refresh(self.row.threads, clock)

    def refresh_settings(self) -> None:
        """Read again what the process itself may change at any time."""
        found = self._traits.settings()
        if any(getattr(self.row, name) != value for name, value in found.items()):
            self._keep(found)

    def measure_pss(self) -> None:
        """Read the proportional set size."""
        try:
            pss = proportional_size(self._proc, self.pid)
        except Unanswered:
            return
        if pss is not None:
            self._keep({"pss_bytes": pss})

    def _keep(self, found: dict[str, Any]) -> None:
        self._fixed = {**self._fixed, **found}
        self.row = msgspec.structs.replace(self.row, **found)

    def close(self) -> None:
        """Close every kept descriptor."""
        self._proc.forget(self._stat_path)
        self._proc.forget(self._io_path)
        self._proc.forget(self._proc.path(self.pid, "task", self.pid, "syscall"))
        self.threads.close()

    def _build(self, stat: Stat, start_time: float) -> Process:
        return Process(
            pid=self.pid, start_time=start_time, ppid=stat.ppid, pgid=stat.pgid, sid=stat.sid,
            state=stat.state, name=stat.name, threads=stat.threads, cpu_s=stat.cpu_s, rss_bytes=stat.rss_bytes,
            forked=stat.forked, child_faults=stat.child_faults, **_io_counters(self._io_text),
            exit_code=self._exit_code(stat) if stat.ended else None,
            **self._fixed,
        )  # fmt: skip

    def _exit_code(self, stat: Stat) -> int | None:
        """The exit status of a zombie; `None` if the kernel shows 0 for lack of rights (proc_pid_stat(5)).

        The link `exe`, which a zombie no longer has, needs the same right: a refusal differs from a missing link.
        """
        if stat.exit_code == 0:
            try:
                self._proc.link(self.pid, "exe")
            except PermissionError:
                return None
            except OSError:
                return 0
        return stat.exit_code

    def _read_io(self) -> None:
        try:
            self._io_text = self._proc.reread(self._io_path)
        except OSError:
            self._io_text = b""


@may_hang
def proportional_size(proc: Proc, pid: int) -> int | None:
    """PSS of a live process, bytes; `None` if it cannot be read or the process is gone."""
    try:
        kib = first_int(status_fields(proc.text(pid, "smaps_rollup")).get("Pss"))
    except OSError:
        return None
    return None if kib is None else kib << 10


def _io_counters(text: bytes) -> dict[str, int]:
    """`rchar`, `wchar` and `syscr` of proc_pid_io(5), as a process's row names them; empty if it cannot be read."""
    if not text:
        return {}
    fields = dict(line.split(b": ", 1) for line in text.splitlines() if b": " in line)
    return {name: int(fields.get(field, 0)) for name, field in _IO_FIELDS.items()}


_IO_FIELDS = {"read_bytes": b"rchar", "written_bytes": b"wchar", "reads": b"syscr"}
