"""An item was put but can never arrive.

What it looks like: the consumer waits, the queue is empty, and all producers are idle: each believes it has delivered.
Why: the queue's feeder thread failed after `put` had returned (an object that cannot be pickled, no descriptors left),
printed a traceback to standard error and dropped the item.
What to do: search the log for `QueueFeederThread`; make the item picklable; raise the descriptor limit or use
`torch.multiprocessing.set_sharing_strategy("file_system")`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Suspect
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "item-lost"


def claim(knot: Knot) -> Claim | None:
    """Somebody waits for a servant, and all servants are idle."""
    if knot.ending is not Ending.NOBODY or knot.nobody is None or not knot.nobody.blame:
        return None
    if knot.standing().kind not in (Wait.LOADER_BATCH, Wait.POOL_RESULT, Wait.FUTURE_RESULT):
        return None
    return Claim(
        summary=f"{knot.role()} waits for {knot.standing().words}, but {knot.nobody.why}",
        evidence=(knot.nobody.why,),
        advice=(
            "Search the job's standard error for QueueFeederThread: the item could not be pickled or sent.",
            "Raise the limit of open files (ulimit -n), or torch.multiprocessing.set_sharing_strategy('file_system').",
        ),
        suspects=tuple(_worker(knot, pid) for pid in knot.nobody.blame),
    )


def _worker(knot: Knot, pid: int) -> Suspect:
    return knot.case.suspect((pid, pid))
