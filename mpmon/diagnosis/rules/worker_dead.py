"""A worker died and somebody waits for it for ever.

What it looks like: the waiter stands in a queue, a pool or a pipe; the process that had to answer has ended (killed,
out of memory, a crash), and nobody told the waiter.
Why: a plain multiprocessing queue does not notice that its producer is gone.
What to do: look for the out-of-memory killer (`dmesg`), lower `num_workers` or the batch, watch `Process.sentinel` beside
the queue, use `ProcessPoolExecutor`, which raises BrokenProcessPool.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Suspect
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.words import several

CAUSE = "worker-dead"


def claim(knot: Knot) -> Claim | None:
    """The chain ends in a process that ended."""
    if knot.ending is not Ending.GONE:
        return None
    names = several([f"{knot.case.role(gone.pid).name} (pid {gone.pid})" for gone in knot.gone])
    return Claim(
        summary=f"{names} {knot.gone[0].how}, and {knot.who_waits() or knot.doing()}",
        evidence=tuple(f"pid {gone.pid}: {gone.how}" for gone in knot.gone),
        advice=("Look for the reason: dmesg (out of memory), the job's log, exit status.",),
        suspects=tuple(_dead(knot, gone.pid) for gone in knot.gone),
    )


def _dead(knot: Knot, pid: int) -> Suspect:
    role = knot.case.role(pid)
    return Suspect(pid=pid, dead=True, role=role.name, rank=role.rank)
