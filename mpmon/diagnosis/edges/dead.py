"""Exited processes that others still wait for: which, how they ended, and what is known about why.

How a process ended is its wait(2) status, which the kernel keeps until the process is reaped (a zombie). The status does
not reveal that a SIGKILL came from the kernel's out-of-memory killer; the control group's counters do.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable
from itertools import pairwise

import msgspec

from mpmon.diagnosis import libraries
from mpmon.diagnosis.graph import Exited, External, WaitEdge
from mpmon.diagnosis.roles import HELPERS, given_name
from mpmon.diagnosis.stacks.frames import calls, has
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import KILLED_TOGETHER_S, NEXT_ROUND_S, STARTED_TOGETHER_S
from mpmon.model import Cgroup, KnownChild, Process, Stack


class Death(msgspec.Struct, frozen=True, gc=False):
    """How one process ended, as far as known."""

    how: str
    """`killed by SIGKILL (9)`; `ended` if no more is known. `did` makes a verb of it."""
    evidence: tuple[str, ...]
    advice: tuple[str, ...]


def exit_words(code: int | None) -> str:
    """wait(2)'s status in words."""
    if code is None:
        return "ended"
    if number := code & 0x7F:
        core = ", which left a core dump" if code & 0x80 else ""
        return f"killed by {signal_name(number)}{core}"
    return f"ended with exit status {code >> 8 & 0xFF}"


def did(how: str) -> str:
    """The predicate of a sentence: `was killed by SIGKILL (9)`, `ended with exit status 1`."""
    return f"was {how}" if how.startswith("killed") else how


def signal_name(number: int) -> str:
    """`SIGKILL (9)`; the bare number if it has no name."""
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"


def death(job: JobState, pid: int) -> Death:
    """What is known of the end of a process: a zombie, or one that ended while mpmon watched."""
    process = job.processes.get(pid)
    exit_row = next((row for row in reversed(job.snapshot.exits) if row.pid == pid), None)
    if process is None and exit_row:
        return _vanished(job, exit_row.process, exit_row.seen_at)
    code = process.exit_code if process else None
    row = job.remembered.get(pid) if process is None else None
    if row and row.returncode is not None:
        how = returncode_words(row.returncode)
        whose = f"{given_name(row) or 'a child'}, which had pid {row.child}"
        known = f"pid {row.pid} still holds the process object of {whose}: {how}"
        return Death(how, (known,), (_ADVICE.get(-row.returncode, _LOG) if row.returncode else _EARLY,))
    if process is None or code is None:
        hidden = f"pid {pid} is a zombie; its exit status cannot be read (another user's, or not dumpable)"
        return Death("ended", (hidden,) if process else (f"pid {pid} ended",), (_LOG,))
    how = exit_words(code)
    seen = f"pid {pid} is a zombie: {how} (/proc/{pid}/stat, field 52)"
    if code & 0x7F != signal.SIGKILL:
        return Death(how, (seen,), (_ADVICE.get(code & 0x7F, _LOG) if code else _EARLY,))
    memory = _killed_for_memory(job, process, watched=_was_alive(job, process))
    return Death(how + memory.how, (seen, *memory.evidence), memory.advice)


def evidence_of(job: JobState, pids: Iterable[int]) -> tuple[str, ...]:
    """The evidence that these processes ended, and how."""
    return tuple(dict.fromkeys(line for pid in pids for line in death(job, pid).evidence))


def advice_on(job: JobState, pids: Iterable[int]) -> tuple[str, ...]:
    """What to do about their ends."""
    return tuple(dict.fromkeys(line for pid in pids for line in death(job, pid).advice))


def dead_relatives(job: JobState, pid: int, *, certain: bool) -> list[Exited]:
    """Children and siblings that ended and were not reaped: they may have been the other end."""
    parent = job.processes[pid].ppid
    return [
        Exited(other, death(job, other).how, certain, job.processes[other].exit_code)
        for other in job.zombies
        if job.processes[other].ppid in (pid, parent) and other != pid
    ]


def dead_ranks(job: JobState, pid: int, size: int | None, alive: int) -> list[Exited]:
    """The ended relatives that were ranks: none if as many live as there are, so that whoever ended was none of them."""
    return dead_relatives(job, pid, certain=True) if size is None or alive < size else []


_TOLD = (signal.SIGTERM, signal.SIGINT)
"""Signals that ask a process to end."""


def crashed_relatives(job: JobState, pid: int) -> list[int]:
    """Children and siblings that crashed, reaped ones only if there are no others; those ended by SIGTERM or SIGINT are
    excluded.
    """
    return [other for other, code in _returncodes(job, pid).items() if code and -code not in _TOLD]


def killed_relatives(job: JobState, pid: int) -> list[int]:
    """Those of them that were killed by a signal."""
    codes = _returncodes(job, pid)
    return [other for other in crashed_relatives(job, pid) if codes[other] < 0]


def _returncodes(job: JobState, pid: int) -> dict[int, int]:
    """The ends of children and siblings, as in `Popen.returncode`; of reaped ones only if no other one has failed."""
    codes = {gone.pid: job.processes[gone.pid].exit_code or 0 for gone in dead_relatives(job, pid, certain=False)}
    ends = {other: -(code & 0x7F) or code >> 8 for other, code in codes.items()}
    return ends if any(-code not in _TOLD and code for code in ends.values()) else {
        row.child: row.returncode or 0 for row in _remembered(job, pid)
    }  # fmt: skip


def with_crashed(job: JobState, key: ThreadKey, edge: WaitEdge) -> WaitEdge:
    """The same edge, with crashed relatives added: if its targets are only candidates, the crashed process may be the one
    that had to act.
    """
    if edge.every or edge.holder_known or (edge.exact and len(edge.targets) == 1):
        return edge
    if not job.zombies and not job.remembered_ends:
        return edge
    if edge.targets and all(isinstance(target, External) for target in edge.targets):
        return edge
    crashed = [gone for gone in dead_relatives(job, key[0], certain=False) if job.processes[gone.pid].exit_code]
    crashed = crashed or [gone for gone in remembered_dead(job, key[0]) if gone.status]
    crashed = [gone for gone in crashed if not _was_terminated(job, gone)]
    if not crashed or any(isinstance(target, Exited) for target in edge.targets):
        return edge
    return msgspec.structs.replace(edge, targets=(*edge.targets, *crashed))


def _was_terminated(job: JobState, gone: Exited) -> bool:
    """A worker of a pool that was told to end, as `Pool.terminate` does with all: it had nothing more to do."""
    names = [row.given_name for row in libraries.WORKERS if row.given_name]
    return (gone.status or 0) & 0x7F in _TOLD and any(name in job.role(gone.pid).name for name in names)


def lost_relatives(job: JobState, pid: int, *, certain: bool) -> list[Exited]:
    """As `dead_relatives`; if there are none, relatives that were reaped but are remembered by their parent's program."""
    if not job.zombies and not job.remembered_ends:
        return []
    found = dead_relatives(job, pid, certain=certain)
    return found or [msgspec.structs.replace(gone, certain=certain) for gone in remembered_dead(job, pid)]


def remembered_dead(job: JobState, pid: int) -> list[Exited]:
    """Children and siblings that were reaped, but whose process objects the parent's program still has; if some of them
    crashed, only those.
    """
    rows = _remembered(job, pid)
    crashed = [row for row in rows if row.returncode]
    return [_as_gone(row) for row in crashed or rows]


def _as_gone(row: KnownChild) -> Exited:
    code = row.returncode or 0
    return Exited(row.child, returncode_words(code), certain=False, status=-code if code < 0 else code << 8)


def _remembered(job: JobState, pid: int) -> list[KnownChild]:
    """Children and siblings that were reaped."""
    return [*reaped(job, pid), *reaped(job, job.processes[pid].ppid)]


def reaped(job: JobState, pid: int) -> list[KnownChild]:
    """Children that a process has reaped, and whose process objects it still has."""
    return [row for row in job.remembered_ends.get(pid, ()) if row.child not in job.processes]


def returncode_words(code: int) -> str:
    """`Popen.returncode` in words."""
    return f"killed by {signal_name(-code)}" if code < 0 else f"ended with exit status {code}"


def gone_children(job: JobState, parent: int, kinds: Collection[str]) -> list[Exited]:
    """Children of these kinds that ended: zombies, else children that mpmon saw end, if their library names its workers."""
    found = [
        Exited(pid, death(job, pid).how, status=job.processes[pid].exit_code)
        for pid in job.children.get(parent, ())
        if not job.is_alive(pid) and job.role(pid).kind in (*kinds, "process", "subprocess")
    ]
    names = {row.process_name for row in libraries.WORKERS if row.kind in kinds and row.process_name}
    if found or not names:
        return found
    working = [job.processes[pid].start_time for pid in job.clients.get(parent, ()) if job.role(pid).kind in kinds]
    seen = [row for row in job.snapshot.exits if row.process.ppid == parent and row.process.name in names]
    # Workers of an earlier epoch ended before these started.
    return [
        Exited(row.pid, death(job, row.pid).how, status=row.process.exit_code) for row in seen
        if not working or row.seen_at > min(working) + NEXT_ROUND_S
    ]  # fmt: skip


class Replaced(msgspec.Struct, frozen=True, gc=False):
    """A pool worker that died, as its replacement shows."""

    successor: int
    shown_by: str
    """The fact that shows it."""
    dead: tuple[int, ...] = ()
    """Pids missing between the siblings' pids; empty if that is ambiguous."""


STARTS_WORKERS = ("multiprocessing/pool.py", ("_handle_workers",))
"""The thread that replaces a pool's workers."""


def replaced(job: JobState, pids: Iterable[int]) -> Replaced | None:
    """A pool starts a new worker for one that died: the new one's pid is above the id of the pool's thread that starts workers,
    which is itself started after the first ones; else the numbers in the workers' names show that one is missing, or the
    new worker is much younger than the others. Workers of a pool with `maxtasksperchild` are replaced without having died.
    """
    workers = sorted((job.processes[pid].start_time, pid) for pid in pids if pid in job.processes)
    if any("maxtasks" in of_worker(job.stacks.get((pid, pid))) for _, pid in workers):
        return None
    starter = max((tid for _, pid in workers for tid in _starters(job, pid)), default=None)
    late = _latecomer([at for at, _ in workers]) if starter is None else _above(starter, [pid for _, pid in workers])
    youngest = len(workers) - 1 if late is None else late
    told = starter is None and bool(workers) and _missing_number(job, workers[youngest][1], _POOL_NUMBERED) is not None
    if late is None and not told:
        return None
    (begin, first), (at, successor) = workers[0], workers[youngest]
    gone = forgotten_child(job, successor, _POOL_NUMBERED)
    if starter is not None:
        shown_by = f"pid {successor} was started after the pool's thread that replaces workers"
    elif told:
        shown_by = f"the number in its name shows that one more process was started before pid {successor}"
    else:
        shown_by = f"pid {successor} was started {at - begin:.1f} s after pid {first}"
    pids = [pid for _, pid in workers]
    dead = (gone,) if gone is not None else _between(job, pids, late, starter) if late else ()
    return Replaced(successor, shown_by, dead)


def of_worker(stack: Stack | None) -> frozenset[str]:
    """Which of a pool worker's own counters are set, by the frame of `worker` (multiprocessing/pool.py): `completed`, its tasks,
    once its initializer has returned, and `maxtasks`.
    """
    frames = (frame for frame in (stack.frames if stack else ()) if calls(frame, *WORKER))
    return frozenset().union(*(frame.known or () for frame in frames))


WORKER = ("multiprocessing/pool.py", ("worker",))


def _starters(job: JobState, worker: int) -> list[int]:
    """The ids of the threads that start workers in the process whose pool a worker belongs to."""
    threads = job.threads(job.role(worker).parent or 0)
    return [key[1] for key in threads if (stack := job.stacks.get(key)) and has(stack, *STARTS_WORKERS)]


def _above(starter: int, pids: list[int]) -> int | None:
    """Index of the first worker that was started after a thread: the kernel numbers both alike, in the order of their starts."""
    return next((at for at, pid in enumerate(pids) if pid > starter), None)


def _between(job: JobState, workers: list[int], late: int, starter: int | None) -> tuple[int, ...]:
    """The pids that are missing among those of the workers before the late ones, if there are as many."""
    together = workers[:late]
    # Processes forked one after the other get consecutive pids, the pool's first thread the next one.
    gaps = sorted(set(range(min(together), starter or max(together))) - set(together))
    count, after = len(workers) - late, max(together) + 1
    if starter is None and not gaps and count == 1 and after not in job.processes and after < workers[late]:
        # The worker that was started last has died.
        gaps = [after]
    return tuple(gaps if len(gaps) == count else ())


def _latecomer(starts: list[float]) -> int | None:
    """Index of the first worker that started long after the others, relative to the gaps between their starts."""
    gaps = [after - before for before, after in pairwise(starts)]
    if not gaps or max(gaps) < STARTED_TOGETHER_S:
        return None
    place = gaps.index(max(gaps))
    rest = gaps[:place] + gaps[place + 1 :]
    return place + 1 if not rest or max(gaps) > 4 * max(rest) else None


_NUMBERED = re.compile(r"(?:\w*Process-(?:[0-9]+:)*|[^0-9]+)([0-9]{1,18})")
"""Multiprocessing's default names: `ForkProcess-2` is its parent's second child (process.py); or a program's own numbered
names.
"""


_POOL_NUMBERED = re.compile(r"\w*PoolWorker-(?:[0-9]+:)*([0-9]{1,18})")
"""The same for the workers of a Pool (pool.py)."""


def forgotten_child(job: JobState, pid: int, numbered: re.Pattern[str] = _NUMBERED) -> int | None:
    """The pid of a sibling that ended and left no trace: the numbers in the siblings' names show that one is missing, and
    exactly one pid between its neighbours' pids is unused; or the one next to a neighbour's, where others were forked in a row.
    """
    number = _missing_number(job, pid, numbered)
    if number is None:
        return None
    parent = job.processes[pid].ppid
    numbers = _numbers(_family(job, parent), numbered)
    taken = {*job.processes, *(thread.tid for thread in job.snapshot.threads)}
    between = range(numbers.get(number - 1, parent) + 1, numbers[number + 1])
    free = [candidate for candidate in between[-MOST_BETWEEN:] if candidate not in taken]
    if len(free) > 1 and any(numbers.get(one + 1) == child + 1 for one, child in numbers.items()):
        before = numbers.get(number - 1)
        free = [candidate for candidate in free if candidate == (before + 1 if before else numbers[number + 1] - 1)]
    return free[0] if len(free) == 1 else None


def misses_sibling(job: JobState, pid: int) -> bool:
    """The numbers in the siblings' names show that one sibling has ended and left no trace."""
    return _missing_number(job, pid, _NUMBERED) is not None


def _missing_number(job: JobState, pid: int, numbered: re.Pattern[str]) -> int | None:
    """The number of the one sibling that is missing from the numbered names."""
    family = _family(job, job.processes[pid].ppid)
    numbers = _numbers(family, numbered)
    highest = max(numbers, default=0)
    # A name may contain any number; below an arbitrary high one, more than one number is missing.
    missing = set(range(1, highest)) - set(numbers) if highest <= len(numbers) + 1 else set[int]()
    known = len(missing) == 1 and len(numbers) == len(family) and pid in numbers.values() and _count_alike(family)
    # All children of one parent are counted together, including those with unknown names.
    return missing.pop() if known and not _unnamed(job, job.processes[pid].ppid, family) else None


def _family(job: JobState, parent: int) -> list[KnownChild]:
    """The children that its program remembers, without those that a library started for itself, such as a manager."""
    rows = (row for row in job.snapshot.remembered if row.pid == parent)
    return [row for row in rows if row.child not in job.roles or job.role(row.child).kind not in HELPERS]


def _count_alike(family: list[KnownChild]) -> bool:
    """The names share one counter: multiprocessing's own, or that of a single base name."""
    names = {row.name.rstrip("0123456789") for row in family}
    return len(names) == 1 or all(_OF_LIBRARY.match(name) for name in names)


_OF_LIBRARY = re.compile(r"\w*(Process|PoolWorker)-")


def _numbers(family: Iterable[KnownChild], numbered: re.Pattern[str] = _NUMBERED) -> dict[int, int]:
    """Children of one parent: pids by the numbers in their names."""
    return {int(found[1]): row.child for row in family if (found := numbered.fullmatch(row.name))}


def ended_relatives(job: JobState, pid: int) -> list[int]:
    """Children and siblings that ended, reaped or not, except called programs that were reaped; empty if the numbers in the
    names show that yet another one left no trace.
    """
    if any(_has_forgotten_one(job, parent) for parent in (pid, job.processes[pid].ppid)):
        return []
    zombies = [gone.pid for gone in dead_relatives(job, pid, certain=False)]
    return list(dict.fromkeys((*zombies, *(row.child for row in _remembered(job, pid) if row.name))))


def _has_forgotten_one(job: JobState, parent: int) -> bool:
    """The children's highest number exceeds the count of numbered names plus that of children with unknown names."""
    family = _family(job, parent)
    numbers = _numbers(family)
    return max(numbers, default=0) - len(numbers) > len(_unnamed(job, parent, family))


def _unnamed(job: JobState, parent: int, family: Iterable[KnownChild]) -> list[int]:
    """Children made by multiprocessing whose names are unknown."""
    named = {row.child for row in family}
    children = (child for child in job.children.get(parent, ()) if child not in named)
    return [child for child in children if job.role(child).kind not in (*HELPERS, "subprocess")]


MOST_BETWEEN = 1000
"""At most this many pids between two siblings' pids are examined."""


# Why


def _vanished(job: JobState, process: Process, seen_at: float) -> Death:
    """A process reaped by its parent: its status is lost, unless mpmon saw it as a zombie first or holds a pidfd for it."""
    row = _group(job, process)
    killed_at = row.oom_kill_seen_at if row else None
    for_memory = killed_at is not None and abs(killed_at - seen_at) <= KILLED_TOGETHER_S
    code = process.exit_code
    if code is not None:
        by = "seen while it was a zombie" if process.ended else "according to the kernel (pidfd)"
        how = exit_words(code)
        evidence = (f"pid {process.pid}: {how}, {by}",)
        if row and for_memory and code & 0x7F == signal.SIGKILL:
            return Death(f"{how}, by the out-of-memory killer", (*evidence, _grew(row)), (_LESS_MEMORY,))
        return Death(how, evidence, (_LOG,))
    if row and for_memory:
        evidence = (f"pid {process.pid} ended while mpmon watched, and at that time {_grew(row)}",)
        return Death(
            "ended while mpmon watched, probably killed by the out-of-memory killer", evidence, (_LESS_MEMORY,)
        )
    return Death("ended while mpmon watched", (f"pid {process.pid} ended while mpmon watched",), (_LOG,))


def _was_alive(job: JobState, process: Process) -> bool:
    """Mpmon saw the process alive, so it ended while mpmon watched."""
    life = job.history.life(process)
    return life is not None and not life.first.ended


def _killed_for_memory(job: JobState, process: Process, *, watched: bool) -> Death:
    """For a process killed by SIGKILL: whether it was an out-of-memory kill, by its control group's counter."""
    row = _group(job, process)
    if row is None or row.oom_kills is None:
        why = row.reasons.get("oom_kills", "unknown") if row else "its control group is unknown"
        return Death(
            "", (f"whether the out-of-memory killer did it is unknown: {why}",), (_SEARCH_KERNEL_LOG, _LESS_MEMORY)
        )
    if watched and row.oom_kill_seen_at is not None:
        return Death(", by the out-of-memory killer", (_grew(row),), (_LESS_MEMORY,))
    if watched or not row.oom_kills:
        count = f"still {row.oom_kills}" if row.oom_kills else "0"
        evidence = f"the oom_kill counter of control group {row.path} is {count}: it was not the out-of-memory killer"
        return Death("", (evidence,), (_WHO_SENT,))
    evidence = (
        f"the oom_kill counter of control group {row.path} is {row.oom_kills} since the group was created{_limit(row)}: "
        "it may be one of these"
    )
    return Death("", (evidence,), (_SEARCH_KERNEL_LOG, _LESS_MEMORY))


def _group(job: JobState, process: Process) -> Cgroup | None:
    """The process's control group; if it ended before mpmon attached, its parent's, which children inherit."""
    parent = job.processes.get(process.ppid)
    path = process.cgroup if process.cgroup is not None else parent.cgroup if parent else None
    return next((row for row in job.snapshot.cgroups if row.path == path), None)


def _grew(row: Cgroup) -> str:
    return (
        f"the oom_kill counter of control group {row.path} grew to {row.oom_kills} while mpmon watched{_limit(row)}: "
        "the kernel killed for memory"
    )


def _limit(row: Cgroup) -> str:
    numbers = [
        f"{name} {_size(value)}" for name, value in (("limit", row.limit_bytes), ("most used", row.peak_bytes)) if value
    ]
    return f" ({', '.join(numbers)})" if numbers else ""


def _size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"


# What to do

_LOG = "Search the job's standard error for its traceback."
_EARLY = "It ended without an error before its part was done: look for an early return, sys.exit() or os._exit()."
_LESS_MEMORY = (
    "Use less memory: lower num_workers, prefetch_factor or the batch size (files in /dev/shm count too), "
    "or raise the limit (docker run --memory=…, sbatch --mem=…)."
)
_SEARCH_KERNEL_LOG = "Check whether the out-of-memory killer ended it: dmesg -T | grep -i 'killed process'."
_WHO_SENT = "Find out what sent SIGKILL: Process.kill() in the program, a scheduler's limit, a user-space memory guard, a person."
_FAULTHANDLER = (
    "Set PYTHONFAULTHANDLER=1, so that a crash prints its Python stack; then look at the extension named there."
)
_ENDED_BY = (
    "Find out what ended it: Process.terminate() or pool.terminate() in the program, the launcher, the scheduler."
)

_ADVICE: dict[int, str] = {
    signal.SIGSEGV: _FAULTHANDLER,
    signal.SIGABRT: _FAULTHANDLER,
    signal.SIGILL: _FAULTHANDLER,
    signal.SIGFPE: _FAULTHANDLER,
    signal.SIGBUS: "Check whether /dev/shm is full: df -h /dev/shm; docker run --shm-size=8g, or lower num_workers.",
    signal.SIGTERM: _ENDED_BY,
    signal.SIGINT: _ENDED_BY,
    signal.SIGHUP: "Its terminal was closed: start the job with nohup, setsid or in tmux.",
    signal.SIGPIPE: "It wrote to a pipe or socket whose reader had ended: look at that reader first.",
    signal.SIGXCPU: "It used up its CPU time: ulimit -t.",
}
"""By the signal that ended it: signal(7)."""
