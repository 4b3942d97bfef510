"""The output of a subprocess: its reader waits, even after the subprocess ends, until every process has closed the
pipe.

`subprocess.run(…, capture_output=True)` reads until the last writer has closed the pipe. A process that a shell left running
in the background has the pipe open too, unless its own output was redirected.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.ends import end_of_process
from mpmon.diagnosis.edges.messages import has_mail
from mpmon.diagnosis.edges.serving import accepts
from mpmon.diagnosis.graph import Absent, External, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import RESTS_AFTER_S, SOON_S


def end_or_output(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The end of a child; if it has ended, the end of background processes that keep its output open."""
    # While a child is alive, the thread may be waiting for that child instead.
    left = [] if job.helpmates(key[0]) else _left_with_output(job, key)
    if not left:
        return end_of_process(job, key)
    # A process with the pipe may merely forward another's output or wait for its end, so all of them must be at rest.
    if has_mail(job, key) or not all(_rests(job, pid) for pid in job.processes if _is_left(job, pid)):
        return None
    names = several([f"{job.full_name(pid)}" for pid in left])
    does = "still runs in the background and keeps" if len(left) == 1 else "still run in the background and keep"
    why = f"the subprocess has ended, but {names} {does} its output pipe open"
    # Of a program that is not Python nothing can be told but that it runs: the line to look at is the reader's.
    ours = tuple(pid for pid in left if job.has_frames(pid))
    kept = (
        NoReleaser(why, ours, Absent.INHERITED)
        if ours
        else External(f"{names} to close a pipe", reason=Absent.INHERITED)
    )
    return WaitEdge((kept,), words="the end of a subprocess's output", evidence=why)


def _left_with_output(job: JobState, key: ThreadKey) -> list[int]:
    """The orphaned processes that could write to the pipes the thread reads; none if any other process could too."""
    blocked = job.blocked.get(key)
    pipes = [item.id for item in job.waits_on(key) if item.kind == "pipe"]
    if blocked is None or blocked.writes or any(job.outsiders.get(name) for name in pipes):
        return []
    rows = [row for name in pipes for row in job.holders.get(name, ()) if row.writes and row.pid != key[0]]
    pids = list(dict.fromkeys(row.pid for row in rows if job.is_alive(row.pid)))
    return pids if all(_is_left(job, pid) for pid in pids) else []


def _is_left(job: JobState, pid: int) -> bool:
    """The process is orphaned: its starter has ended, so it no longer descends from the job's root."""
    while pid in job.processes and pid != job.snapshot.root_pid:
        pid = job.processes[pid].ppid
    return pid != job.snapshot.root_pid


def _rests(job: JobState, pid: int) -> bool:
    """The process will not end soon: it is a server that waits for connections; or each of its threads has not run for a while,
    nor will soon run by itself, or stays for ever in a loop that only sleeps.
    """
    rows = (*job.threads(pid), *job.natives(pid))
    if not job.is_alive(pid) or any(accepts(job, key) for key in rows):
        return True
    return bool(rows) and all(_is_still(job, key) or job.only_sleeps(key) for key in rows)


def _is_still(job: JobState, key: ThreadKey) -> bool:
    past = job.thread_history(key)
    rested = past is None or job.now - past.ran_at >= RESTS_AFTER_S
    return rested and not _wakes_soon(job, key)


def _wakes_soon(job: JobState, key: ThreadKey) -> bool:
    blocked = job.blocked.get(key)
    if blocked is None:
        return True
    waits_s = blocked.wakes_at - job.now if blocked.wakes_at is not None else blocked.timeout_s
    return waits_s is not None and waits_s < SOON_S
