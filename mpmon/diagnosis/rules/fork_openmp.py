"""A forked child blocks in an OpenMP, MKL or BLAS thread pool whose threads exist only in the parent.

What it looks like: a forked process is in a tensor or array operation; the kernel shows a futex that is neither a pthread
mutex nor a semaphore (the barrier of libgomp); the pool's threads are missing.
Why: fork copies the pool's bookkeeping but not its threads.
What to do: start processes with `spawn` or `forkserver`. Or call `torch.set_num_threads(1)`: in the child before its first
operation, or in the parent before any.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.stacks.native_waits import Sort
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "fork-openmp"
NEEDS = frozenset({"stacks", "blocked"})


def match(stuck: StuckSet) -> Match | None:
    """A forked child waits in a barrier of native threads."""
    blocked = stuck.blocked()
    if (
        stuck.nobody is None
        or stuck.nobody.reason is not Absent.NATIVE_AT_FORK
        or stuck.root is None
        or blocked is None
    ):
        return None
    if len(blocked.args) < 3:
        return None
    _, operation, value, *_ = blocked.args
    fact = stuck.native_fact()
    team = fact.wait if fact and fact.wait and fact.is_surely(Sort.TEAM) else None
    return Match(
        summary=f"{stuck.role()}, the child of a fork, waits{stuck.at()} "
        f"for native threads ({team.library if team else 'OpenMP'}) "
        "that exist only in its parent",
        evidence=(
            ""
            if team
            else f"futex operation {operation:#x} expecting {value}: neither a mutex nor a semaphore, like libgomp's barriers",
            f"number of Python threads in the child: {len(stuck.job.threads(stuck.root[0]))}; none can wake it",
        ),
        advice=(
            'Start the process with multiprocessing.get_context("spawn") or "forkserver".',
            "Or call torch.set_num_threads(1): in the child before its first operation, or in the parent before any.",
        ),
        certainty=Certainty.PROVED if team else Certainty.LIKELY,
    )
