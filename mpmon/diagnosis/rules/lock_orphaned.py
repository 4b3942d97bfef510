"""A process died holding a lock or semaphore that others need.

What it looks like: processes wait in a multiprocessing lock, queue or semaphore whose value is 0, and by the ledger no
living process has acquired it.
Why: SIGKILL, out of memory, `terminate()`, or an early return without `release()`; such locks are not given back.
What to do: restart the job; use `with lock:`; do not `terminate()` processes that share locks or queues.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.needs.dead import advice_on, death, did, evidence_of
from mpmon.diagnosis.responsibility import lost_holder

CAUSE = "lock-orphaned"
NEEDS = frozenset({"blocked", "semaphores"})


def claim(knot: Knot) -> Claim | None:
    """A lock between processes, taken by nobody alive."""
    found = lost_holder(knot)
    if found is None or knot.nobody is None:
        return None
    inferred, who = found.pool or found.family, "a process that has ended"
    if len(found.pids) == 1:
        (pid,) = found.pids
        how = (
            "was replaced by its pool"
            if found.pool
            else "has ended"
            if found.family
            else did(death(knot.case, pid).how)
        )
        who = f"{'a sibling' if found.family else knot.case.role(pid).name} (pid {pid}), which {how},"
    return Claim(
        summary=f"{knot.role()} waits for a lock that {who} took with it",
        evidence=(
            knot.nobody.why,
            *knot.edge_evidence(),
            *(f"pid {pid} is missing between the pids of its {'pool' if found.pool else 'family'}: probably the holder's"
              for pid in found.pids if inferred),
            *(evidence_of(knot.case, found.pids) if not inferred else ()),
        ),
        advice=(
            *advice_on(knot.case, found.pids),
            "Restart: the lock is lost. Take locks with `with`, so that an exception gives them back.",
            "Do not kill or terminate() a process that shares a lock or a queue.",
        ),
        certainty=Certainty.LIKELY if inferred else Certainty.PROVED,
    )  # fmt: skip
