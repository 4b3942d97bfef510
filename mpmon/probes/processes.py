"""Which processes make up the job, and how much each of their threads ran.

The job is the root's tree: children, their children, and what belonged to it once.
A process that was seen in the tree stays in it when its parent dies and it is re-parented, or when it changes session.
Processes that were re-parented before mpmon came are taken in when they lead nowhere else: same process group as the
root, started after it, and their parent is a reaper in another session (init or a subreaper).

/proc is listed only when the kernel tells that somebody has come or gone, only new pids are examined, and only processes
that have run since the last round are read again, as their clocks tell.  So a round costs one clock a process, and of those
that ran one `stat` and one `schedstat` a thread (measured: 0.8 µs, 4.5 µs and 0.9 µs).
Everything that does not change during a process's life is read once.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterable, Iterator, KeysView, Mapping
from itertools import chain
from typing import Any

import msgspec

from mpmon.model import Exit, Process, Thread, Unknown
from mpmon.probes.ends import Ends
from mpmon.probes.files import Proc
from mpmon.probes.stat import Stat, boot_time
from mpmon.probes.tree import Tree
from mpmon.probes.users import user_names

KEPT_ENVIRONMENT = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "GROUP_RANK",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "MPMON_RUN_DIR",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMP_NUM_THREADS",
        "PMI_RANK",
        "PMI_SIZE",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "RANK",
        "ROLE_RANK",
        "SLURM_LOCALID",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "TORCHELASTIC_RUN_ID",
        "WORLD_SIZE",
        "XDG_RUNTIME_DIR",
    }
)
"""The only names ever kept of a process's environment: the rest may hold secrets."""

TURNS = 10
"""A process that has not run is read every tenth round all the same: memory may have been taken from it."""

_ENVIRONMENT_LIMIT = 1 << 18
_COMMAND_LIMIT = 1 << 14


class ProcessTable:
    """The processes and threads of one job, from round to round."""

    def __init__(self, proc: Proc, root_pid: int) -> None:
        """
        Raises:
            ProcessLookupError: there is no such process.
        """
        self._proc = proc
        self.root_pid = root_pid
        self._boot = boot_time(proc)
        self._users = user_names()
        self._ends = Ends(proc)
        self._known: set[str] = set()
        """What of /proc was looked at: the job's pids, others', and files."""
        self._census: bytes | None = None
        """Of the machine, when /proc was listed last."""
        self._members: dict[int, _Member] = {}
        self.living: set[int] = set()
        """Pids of those that have not ended."""
        self.stirred: list[int] = []
        """Pids of those that may have run since the last round, new ones too."""
        self._rounds = 0
        self.exits: tuple[Exit, ...] = ()
        self.unknowns: dict[int, Unknown] = {}
        stat = Stat.read(proc, root_pid)
        if stat is None:
            raise ProcessLookupError(errno.ESRCH, "no such process", str(root_pid))
        self.root_start_time = stat.started_at(self._boot)
        self._tree = Tree(proc, root_pid, stat)

    def look(self, now: float) -> tuple[tuple[Process, ...], tuple[Thread, ...]]:
        """One round: all processes of the job by pid, and all their threads."""
        self._find_new()
        self._rounds += 1
        self.stirred = []
        for place, member in enumerate(list(self._members.values())):
            ran = member.has_run()
            if ran or (self._rounds + place) % TURNS == 0:
                self._refresh(member, now, ran=ran)
        before, self.living = self.living, {pid for pid, member in self._members.items() if not member.row.ended}
        if ended := before - self.living:
            for orphan in [member for member in self._members.values() if member.row.ppid in ended]:
                self._refresh(orphan, now, ran=False)
            self.stirred = [pid for pid in self.stirred if pid in self._members]
        members = [self._members[pid] for pid in sorted(self._members)]
        return (
            tuple(member.row for member in members),
            tuple(chain.from_iterable(member.threads for member in members)),
        )

    @property
    def pids(self) -> KeysView[int]:
        """All processes of the job."""
        return self._members.keys()

    @property
    def parents(self) -> dict[int, int]:
        """The kernel's parent of each, by pid."""
        return {pid: member.row.ppid for pid, member in self._members.items()}

    def main_call(self, pid: int) -> bytes:
        """The system call of the main thread as the kernel prints it; empty where it may not be read."""
        try:
            return self._proc.reread(self._proc.path(pid, "task", pid, "syscall"))
        except OSError:
            return b""

    def threads_of(self, pid: int) -> tuple[Thread, ...]:
        """The threads of one process; the very same tuple as long as none of them ran."""
        return self._members[pid].threads

    def refresh_names(self, pids: Iterable[int]) -> None:
        """Read the names of threads again: torch and libraries set them after a thread has started."""
        for pid in pids:
            if pid in self._members:
                self._members[pid].refresh_names()

    def refresh_settings(self, pids: Iterable[int]) -> None:
        """Read again what these processes may change at any time: which signals they handle, where they work."""
        for pid in pids:
            if pid in self._members:
                self._members[pid].refresh_settings()

    def measure_shared_memory(self, pids: Iterable[int]) -> None:
        """Read the proportional set size of these processes: up to 3 ms each, so only where somebody looks."""
        for pid in pids:
            if pid in self._members:
                self._members[pid].measure_pss()

    def close(self) -> None:
        """Give every kept descriptor back."""
        for member in self._members.values():
            member.close()

    def _find_new(self) -> None:
        before, self._census = self._census, self._proc.census()
        if before is not None and before == self._census:
            return
        names = set(self._proc.names())
        self._known &= names
        unseen = sorted(int(name) for name in names - self._known if name.isdigit())
        stats = {pid: stat for pid in unseen if (stat := Stat.read(self._proc, pid))}
        self._known |= names.difference(str(pid) for pid in unseen if pid not in stats)
        for pid in self._tree.joining(stats, self._members):
            self._adopt(pid, stats[pid])

    def _adopt(self, pid: int, stat: Stat) -> None:
        member = _Member(self._proc, pid, stat, self._boot, self._users)
        self._members[pid] = member
        self._ends.hold(pid)
        if member.unreadable:
            self.unknowns[pid] = Unknown(table="processes", pid=pid, reason=member.unreadable)

    def _refresh(self, member: _Member, now: float, *, ran: bool) -> None:
        threads = member.threads
        if not member.refresh(ran=ran):
            self._lose(member, now)
        elif ran or member.threads is not threads:
            self.stirred.append(member.pid)

    def _lose(self, member: _Member, now: float) -> None:
        member.close()
        del self._members[member.pid]
        self._known.discard(str(member.pid))
        self.unknowns.pop(member.pid, None)
        last = member.row
        if last.exit_code is None:
            last = msgspec.structs.replace(last, exit_code=self._ends.status(member.pid))
        self._ends.drop(member.pid)
        self.exits = (
            *self.exits[-255:], Exit(pid=last.pid, start_time=last.start_time, seen_at=now, process=last),
        )  # fmt: skip


class _Member:
    """One process of the job: what never changes, and the last state of what does."""

    def __init__(self, proc: Proc, pid: int, stat: Stat, boot: float, users: Mapping[int, str]) -> None:
        self._proc = proc
        self._users = users
        self.pid = pid
        self.start_ticks = stat.start_ticks
        self.unreadable = ""
        self._stat_path = proc.path(pid, "stat")
        self._io_path = proc.path(pid, "io")
        self._clock: int | None = None
        self._stat_text = b""
        self._io_text = b""
        self._tids: dict[int, _ThreadState] = {}
        self.threads: tuple[Thread, ...] = ()
        self._fixed: dict[str, Any] = self._read_fixed()
        if stat.state in "ZX" and self._fixed["cgroup"] == "/":
            # What v1 says of every process that has ended, whatever its group was.
            self._fixed["cgroup"] = None
        self.row = self._build(stat, stat.started_at(boot))

    def has_run(self) -> bool:
        """Whether any of its threads ran since this was asked last; also where that cannot be told.

        A process whose state changes, or that ends, has to run for that.
        """
        before, self._clock = self._clock, self._proc.clock(self.pid)
        return self._clock is None or self._clock != before

    def refresh(self, *, ran: bool) -> bool:
        """Read again what changes, its threads only if they `ran`; False when the process is gone."""
        try:
            text = self._proc.reread(self._stat_path)
        except OSError:
            return False
        ran = (ran or text != self._stat_text) and self._refresh_threads()
        if text != self._stat_text or ran:
            stat = Stat(text)
            if stat.start_ticks != self.start_ticks:
                return False
            words = self.row.cmdline
            in_exec = words is not None and not any(words) and stat.state not in "ZX"
            stopped = stat.state != self.row.state and {stat.state, self.row.state} & set("Tt")
            if stat.name != self.row.name or in_exec or stopped:
                self._fixed = {**self._fixed, **self._read_fixed()}
            self._read_io()
            self._stat_text = text
            row = self._build(stat, self.row.start_time)
            self.row = row if row != self.row else self.row
            if len(self._tids) != stat.threads or stat.state in "ZX":
                self._refresh_threads()
        return True

    def refresh_names(self) -> None:
        renamed = [state.refresh_name() for state in self._tids.values()]
        if any(renamed):
            self.threads = tuple(state.row for state in self._tids.values())

    def refresh_settings(self) -> None:
        found = {**_handlers(_status_fields(self._optional("status"))), "cwd": self._link("cwd")}
        if any(getattr(self.row, name) != value for name, value in found.items()):
            self._fixed = {**self._fixed, **found}
            self.row = msgspec.structs.replace(self.row, **found)

    def measure_pss(self) -> None:
        pss = proportional_size(self.pid)
        if pss is not None:
            self._fixed = {**self._fixed, "pss_bytes": pss}
            self.row = msgspec.structs.replace(self.row, pss_bytes=pss)

    def close(self) -> None:
        self._proc.forget(self._stat_path)
        self._proc.forget(self._io_path)
        self._proc.forget(self._proc.path(self.pid, "task", self.pid, "syscall"))
        for state in self._tids.values():
            state.close()

    def _build(self, stat: Stat, start_time: float) -> Process:
        read, written = _io_counters(self._io_text)
        return Process(
            pid=self.pid, start_time=start_time, ppid=stat.ppid, pgid=stat.pgid, sid=stat.sid,
            state=stat.state, name=stat.name, threads=stat.threads, cpu_s=stat.cpu_s, rss_bytes=stat.rss_bytes,
            read_bytes=read, written_bytes=written, forked=stat.forked,
            exit_code=self._exit_code(stat) if stat.state in "ZX" else None,
            **self._fixed,
        )  # fmt: skip

    def _exit_code(self, stat: Stat) -> int | None:
        """The status of a zombie; `None` where the kernel shows 0 to those who may not know (proc_pid_stat(5)).

        The link `exe`, which a zombie has no more, needs the same right: refused is not the same as gone.
        """
        if stat.exit_code == 0:
            try:
                self._proc.link(self.pid, "exe")
            except PermissionError:
                return None
            except OSError:
                return 0
        return stat.exit_code

    def _refresh_threads(self) -> bool:
        """Whether any thread ran, began or ended."""
        if self.row.state in "ZX":
            self._drop_threads()
            return False
        changed = len(self._tids) != self.row.threads and self._list_threads()
        for state in self._tids.values():
            outcome = state.refresh()
            if outcome is None:
                self._list_threads()
                changed = True
                break
            changed |= outcome
        if changed:
            self.threads = tuple(state.row for state in self._tids.values())
        return changed

    def _list_threads(self) -> bool:
        try:
            tids = self._proc.tids(self.pid)
        except OSError:
            return False
        before = self._tids
        self._tids = {tid: before.get(tid) or _ThreadState(self._proc, self.pid, tid) for tid in tids}
        for tid in before.keys() - self._tids.keys():
            before[tid].close()
        for tid in self._tids.keys() - before.keys():
            self._tids[tid].refresh()
        return before.keys() != self._tids.keys()

    def _drop_threads(self) -> None:
        for state in self._tids.values():
            state.close()
        self._tids = {}
        self.threads = ()

    def _read_io(self) -> None:
        try:
            self._io_text = self._proc.reread(self._io_path)
        except OSError:
            self._io_text = b""

    def _read_fixed(self) -> dict[str, Any]:
        """What seldom changes: with an exec (which renames the process), with a tracer (which stops it), or by a setting."""
        status = _status_fields(self._optional("status"))
        inside = [int(field) for field in status.get("NSpid", "").split()]
        uid = _first_int(status.get("Uid"))
        return {
            "cmdline": _split(self._optional("cmdline", _COMMAND_LIMIT)),
            "exe": self._link("exe"),
            "cwd": self._link("cwd"),
            "uid": uid,
            "user": None if uid is None else self._users.get(uid),
            "tracer_pid": _first_int(status.get("TracerPid")),
            "namespace_pid": inside[-1] if len(inside) > 1 else None,
            "environment": self._environment(),
            "cgroup": _memory_group(self._optional("cgroup")),
            "cpus": _count_of_mask(status.get("Cpus_allowed")),
            **_handlers(status),
        }

    def _environment(self) -> dict[str, str] | None:
        text = self._optional("environ", _ENVIRONMENT_LIMIT)
        return None if text is None else dict(_kept_pairs(text))

    def _optional(self, name: str, limit: int = 1 << 16) -> bytes | None:
        try:
            return self._proc.read(self.pid, name, limit=limit)
        except PermissionError:
            self.unreadable = "belongs to another user or is not dumpable: command line and counters only"
            return None
        except OSError:
            return None

    def _link(self, name: str) -> str | None:
        try:
            return self._proc.link(self.pid, name)
        except OSError:
            return None


class _ThreadState:
    """One thread's counters, read through a kept descriptor."""

    def __init__(self, proc: Proc, pid: int, tid: int) -> None:
        self._proc = proc
        self._pid, self._tid = pid, tid
        self._path = proc.path(pid, "task", tid, "schedstat")
        self._text = b""
        self.row = Thread(pid=pid, tid=tid, name=self._name(), run_ns=0, slices=0)

    def refresh(self) -> bool | None:
        """Whether the thread ran since the last look; `None` when it is gone."""
        try:
            text = self._proc.reread(self._path)
        except OSError:
            return self._refresh_without_schedstat()
        if text == self._text:
            return False
        self._text = text
        run, wait, slices = (int(field) for field in text.split()[:3])
        self.row = Thread(pid=self._pid, tid=self._tid, name=self.row.name, run_ns=run, wait_ns=wait, slices=slices)
        return True

    def refresh_name(self) -> bool:
        """Whether it has another name now."""
        name, row = self._name(), self.row
        if not name or name == row.name:
            return False
        self.row = Thread(
            pid=row.pid, tid=row.tid, name=name, run_ns=row.run_ns, wait_ns=row.wait_ns, slices=row.slices
        )
        return True

    def close(self) -> None:
        self._proc.forget(self._path)

    def _refresh_without_schedstat(self) -> bool | None:
        """Kernels without scheduler statistics: switch counters and ticks of `status` and `stat`."""
        try:
            status = _status_fields(self._proc.read(self._pid, "task", self._tid, "status"))
            ticks = Stat(self._proc.read(self._pid, "task", self._tid, "stat")).cpu_s
        except (OSError, ValueError, IndexError):
            return None
        slices = sum(int(status.get(f"{kind}_ctxt_switches", "0")) for kind in ("voluntary", "nonvoluntary"))
        row = Thread(pid=self._pid, tid=self._tid, name=self.row.name, run_ns=int(ticks * 1e9), slices=slices)
        changed = row != self.row
        self.row = row if changed else self.row
        return changed

    def _name(self) -> str:
        try:
            return self._proc.text(self._pid, "task", self._tid, "comm").rstrip("\n")
        except OSError:
            return ""


def proportional_size(pid: int) -> int | None:
    """PSS of a live process, bytes; `None` where it may not be read or the process is gone."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_full_info().pss)
    except (psutil.Error, OSError, AttributeError):
        return None


def _kept_pairs(text: bytes) -> Iterator[tuple[str, str]]:
    for entry in text.decode("utf-8", "replace").split("\0"):
        name, _, value = entry.partition("=")
        if name in KEPT_ENVIRONMENT:
            yield name, value


def _split(text: bytes | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(text.decode("utf-8", "replace").rstrip("\0").split("\0"))


def _status_fields(text: bytes | None) -> dict[str, str]:
    lines = (text or b"").decode("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _memory_group(text: bytes | None) -> str | None:
    """The group of the memory controller: its own tree in v1, else the only one there is, `0::PATH` (cgroups(7))."""
    lines = [line.split(":", 2) for line in (text or b"").decode("utf-8", "replace").splitlines()]
    groups = {name: fields[2] for fields in lines if len(fields) == 3 for name in fields[1].split(",")}
    return groups.get("memory", groups.get(""))


def _count_of_mask(text: str | None) -> int | None:
    """The bits of a hexadecimal mask in words of 32: `ff,ffffffff` is 40 CPUs."""
    return int(text.replace(",", ""), 16).bit_count() if text else None


def _handlers(status: dict[str, str]) -> dict[str, bool]:
    """Which signals it has handlers for, of those that matter."""
    mask = status.get("SigCgt")
    return {"catches_alarm": _has_signal(mask, signal.SIGALRM), "catches_term": _has_signal(mask, signal.SIGTERM)}


def _has_signal(mask: str | None, number: int) -> bool:
    """Whether a signal is in a mask of proc_pid_status(5)."""
    return mask is not None and bool(int(mask, 16) >> (number - 1) & 1)


def _first_int(text: str | None) -> int | None:
    return int(text.split()[0]) if text else None


def _io_counters(text: bytes) -> tuple[int | None, int | None]:
    """`rchar` and `wchar` of proc_pid_io(5)."""
    if not text:
        return None, None
    fields = dict(line.split(b": ", 1) for line in text.splitlines() if b": " in line)
    return int(fields.get(b"rchar", 0)), int(fields.get(b"wchar", 0))
