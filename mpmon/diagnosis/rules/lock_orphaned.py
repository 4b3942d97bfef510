"""A process died holding a lock or semaphore that others need.

What it looks like: processes wait in a multiprocessing lock, queue or semaphore whose value is 0, and by the ledger no
living process has acquired it.
Why: SIGKILL, out of memory, `terminate()`, or an early return without `release()`; such locks are not given back.
What to do: restart the job; use `with lock:`; do not `terminate()` processes that share locks or queues.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.needs.dead import advice_on, death, did, evidence_of, forgotten_child, replaced

CAUSE = "lock-orphaned"
NEEDS = frozenset({"blocked", "semaphores"})


def claim(knot: Knot) -> Claim | None:
    """A lock between processes, taken by nobody alive."""
    if knot.nobody is None or knot.nobody.reason is not Absent.HOLDER_ENDED or knot.root is None:
        return None
    if not any(item.kind == "semaphore" for item in knot.case.waits_on(knot.root)):
        return None
    dead = tuple(knot.case.dead_suspect(pid) for pid in knot.nobody.blame if pid not in {key[0] for key in knot.roots})
    siblings = knot.case.clients.get(knot.case.role(knot.root[0]).parent or 0, ())
    pool = [pid for pid in siblings if knot.case.role(pid).kind == "pool worker"]
    found = None if dead else replaced(knot.case, pool)
    before = None if dead or pool else forgotten_child(knot.case, knot.root[0])
    inferred = found.dead if found else (before,) if before else ()
    dead = dead or tuple(map(knot.case.dead_suspect, inferred))
    pids = [suspect.pid for suspect in dead]
    who = "a process that has ended"
    if len(dead) == 1:
        how = "was replaced by its pool" if found else "has ended" if before else did(death(knot.case, pids[0]).how)
        who = f"{'a sibling' if before else dead[0].role} (pid {pids[0]}), which {how},"
    return Claim(
        summary=f"{knot.role()} waits for a lock that {who} took with it",
        evidence=(
            knot.nobody.why,
            *knot.edge_evidence(),
            *(f"pid {pid} is missing between the pids of its {'pool' if found else 'family'}: probably the holder's"
              for pid in inferred),
            *(evidence_of(knot.case, pids) if not inferred else ()),
        ),
        advice=(
            *advice_on(knot.case, pids),
            "Restart: the lock is lost. Take locks with `with`, so that an exception gives them back.",
            "Do not kill or terminate() a process that shares a lock or a queue.",
        ),
        certainty=Certainty.LIKELY if inferred else Certainty.PROVED,
        suspects=dead,
    )  # fmt: skip
