"""A process died holding a lock or semaphore that others need.

What it looks like: processes wait for a multiprocessing lock, queue or semaphore whose value is 0, and by its acquire counts
no living process holds it.
Why: SIGKILL, out of memory, `terminate()`, or an early return without `release()`; such locks are never released.
What to do: restart the job; use `with lock:`; do not `terminate()` processes that share locks or queues.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import advice_on, death, did, evidence_of
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.responsibility import lost_holder
from mpmon.diagnosis.stuck_set import Match, StuckSet

CAUSE = "lock-orphaned"
NEEDS = frozenset({"blocked", "semaphores"})


def match(stuck: StuckSet) -> Match | None:
    """A lock between processes is taken, but no live process holds it."""
    found = lost_holder(stuck)
    if found is None or stuck.nobody is None:
        return None
    inferred, who = found.pool or found.family, "a process that has ended"
    if len(found.pids) == 1:
        (pid,) = found.pids
        how = (
            "was replaced by its pool"
            if found.pool
            else "has ended"
            if found.family
            else did(death(stuck.job, pid).how)
        )
        who = f"{'a sibling' if found.family else stuck.job.role(pid).name} (pid {pid}), which {how},"
    return Match(
        summary=f"{stuck.role()} waits for a lock that {who} never released",
        evidence=(
            stuck.nobody.why,
            *stuck.edge_evidence(),
            *(f"pid {pid} is missing from the pids of its {'pool' if found.pool else 'siblings'}: probably the holder"
              for pid in found.pids if inferred),
            *(evidence_of(stuck.job, found.pids) if not inferred else ()),
        ),
        advice=(
            *advice_on(stuck.job, found.pids),
            "Restart: the lock is lost. Take locks with `with`, so that an exception releases them.",
            "Do not kill or terminate() a process that shares a lock or a queue.",
        ),
        certainty=Certainty.LIKELY if inferred else Certainty.PROVED,
    )  # fmt: skip
