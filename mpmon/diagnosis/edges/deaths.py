"""How and why processes ended.

How is their wait(2) status, which the kernel keeps until the process is reaped (a zombie).  The status does not reveal that a
SIGKILL came from the kernel's out-of-memory killer; the control group's counters do.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

import msgspec

from mpmon.diagnosis.roles import given_name
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import KILLED_TOGETHER_S
from mpmon.model import Cgroup, Process


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
        name = f"'{given_name(row)}' (pid {row.child})" if given_name(row) else f"pid {row.child}"
        known = f"the process object of {name}, which pid {row.pid} still holds: {how}"
        return Death(how, (known,), (_ADVICE.get(-row.returncode, _LOG) if row.returncode else _EARLY,))
    if process is None or code is None:
        hidden = f"pid {pid} is a zombie; its exit status cannot be read (another user's, or not dumpable)"
        return Death("ended", (hidden,) if process else (f"pid {pid} ended",), (_LOG,))
    how = exit_words(code)
    seen = f"pid {pid} is a zombie: {how} (/proc/{pid}/stat, field 52)"
    if code & 0x7F != signal.SIGKILL:
        return Death(how, (seen,), (_advice(code),))
    memory = _killed_for_memory(job, process, watched=_was_alive(job, process))
    return Death(how + memory.how, (seen, *memory.evidence), memory.advice)


def _advice(code: int) -> str:
    """By a status of wait(2)."""
    return _ADVICE.get(code & 0x7F, _LOG) if code else _EARLY


def evidence_of(job: JobState, pids: Iterable[int]) -> tuple[str, ...]:
    """The evidence that these processes ended, and how."""
    return tuple(dict.fromkeys(line for pid in pids for line in death(job, pid).evidence))


def advice_on(job: JobState, pids: Iterable[int]) -> tuple[str, ...]:
    """What to do about their ends."""
    return tuple(dict.fromkeys(line for pid in pids for line in death(job, pid).advice))


def returncode_words(code: int) -> str:
    """`Popen.returncode` in words."""
    return f"killed by {signal_name(-code)}" if code < 0 else f"ended with exit status {code}"


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
        return Death(how, evidence, (_advice(code),))
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
        why = row.reasons.get("oom_kills", "unknown") if row else "its cgroup is unknown"
        unknown = f"mpmon cannot tell whether the out-of-memory killer ended pid {process.pid}: {why}"
        return Death("", (unknown,), (_SEARCH_KERNEL_LOG, _LESS_MEMORY))
    if watched and row.oom_kill_seen_at is not None:
        return Death(", by the out-of-memory killer", (_grew(row),), (_LESS_MEMORY,))
    if watched or not row.oom_kills:
        count = f"still {row.oom_kills}" if row.oom_kills else "0"
        evidence = f"the oom_kill counter of cgroup {row.path} is {count}: it was not the out-of-memory killer"
        return Death("", (evidence,), (_WHO_SENT,))
    evidence = (
        f"the oom_kill counter of cgroup {row.path} is {row.oom_kills} since the group was created{_limit(row)}: "
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
        f"the oom_kill counter of cgroup {row.path} grew to {row.oom_kills} while mpmon watched{_limit(row)}: "
        "the kernel killed for memory"
    )


def _limit(row: Cgroup) -> str:
    numbers = [
        f"{name} {_size(value)}" for name, value in (("limit", row.limit_bytes), ("most used", row.peak_bytes)) if value
    ]
    return f" ({', '.join(numbers)})" if numbers else ""


def _size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"


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
    signal.SIGKILL: _WHO_SENT,
    signal.SIGTERM: _ENDED_BY,
    signal.SIGINT: _ENDED_BY,
    signal.SIGHUP: "Its terminal was closed: start the job with nohup, setsid or in tmux.",
    signal.SIGPIPE: "It wrote to a pipe or socket whose reader had ended: look at that reader first.",
    signal.SIGXCPU: "It used up its CPU time: ulimit -t.",
}
"""By the signal that ended it: signal(7)."""
