"""A process died holding a lock or semaphore that others need.

What it looks like: processes wait for a multiprocessing lock, queue or semaphore whose value is 0, and by its acquire counts
no living process holds it.
Or a process is in set() of an event or notify() of a condition: the call returns only when every process that slept in it
has woken, and a killed one never does.
Why: SIGKILL, out of memory, `terminate()`, or an early return without `release()`; such locks are never released.
What to do: restart the job; use `with lock:`; do not `terminate()` processes that share locks or queues.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.deaths import advice_on, death, did, evidence_of
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, NoReleaser
from mpmon.diagnosis.responsibility.ended import LostHolder, lost_holder
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "lock-orphaned"
NEEDS = frozenset({"blocked", "semaphores"})


def match(stuck: StuckSet) -> Match | None:
    """A lock between processes is taken, but no live process holds it."""
    if stuck.nobody is not None and stuck.nobody.reason is Absent.SLEEPER_ENDED:
        return _not_woken(stuck, stuck.nobody)
    found = lost_holder(stuck)
    if found is None or stuck.nobody is None:
        return None
    inferred = found.pool or found.family
    return Match(
        summary=f"{stuck.role()} waits for a lock {_whose(stuck, found)}",
        evidence=(
            stuck.nobody.why,
            *stuck.edge_evidence(),
            *(f"pid {pid} is missing from the pids of its {'pool' if found.pool else 'siblings'}: probably the holder"
              for pid in found.pids if inferred),
            *(evidence_of(stuck.job, found.pids) if not inferred else ()),
        ),
        advice=(
            *advice_on(stuck.job, found.pids),
            *(_KILLED if found.killed else _LEFT_LOCKED),
        ),
        certainty=Certainty.LIKELY if inferred or found.killed else Certainty.PROVED,
    )  # fmt: skip


def _whose(stuck: StuckSet, found: LostHolder) -> str:
    """Who had it, and how surely."""
    guess = ""
    if len(found.pids) == 1:
        (pid,) = found.pids
        which = "the one number missing among its siblings" if found.family else "which its pool has replaced"
        guess = f": probably pid {pid}, {which}"
        if not (found.pool or found.family):
            how = did(death(stuck.job, pid).how)
            who = f"{stuck.job.role(pid).name} (pid {pid}), which {how},"
            return f"that {who} {'probably held' if found.killed else 'never released'}"
    return f"whose holder has ended without releasing it{guess}"


_KILLED = (
    "Restart: the lock stays taken.",
    "Let processes that share locks or queues end by themselves; or use fcntl.flock, which the kernel releases.",
)
_LEFT_LOCKED = (
    "Restart: the lock stays taken. Take locks with `with`, so that a return or an exception releases them.",
)


def _not_woken(stuck: StuckSet, nobody: NoReleaser) -> Match:
    """A process that notifies waits for one that slept in the condition and has ended."""
    dead = [pid for pid in nobody.blame if not stuck.job.is_alive(pid)]
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for every process that it notified to wake up, but one of them died while it "
        "waited",
        evidence=(nobody.why, *stuck.edge_evidence(), *evidence_of(stuck.job, tuple(dead))),
        advice=(
            *advice_on(stuck.job, tuple(dead)),
            "Do not kill or terminate() a process that waits for a multiprocessing event or condition: let it end by itself.",
        ),
        certainty=Certainty.LIKELY,
    )
