"""The child of a fork blocks in an OpenMP, MKL or BLAS thread pool that does not exist there.

What it looks like: a forked process stands in a tensor or array operation; the kernel shows a futex that is neither a
pthread mutex nor a semaphore (the barrier of libgomp); the pool's threads are missing.
Why: fork copies the pool's bookkeeping but not its threads.
What to do: start processes with `spawn` or `forkserver`, or call `torch.set_num_threads(1)` before any work in the parent.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "fork-openmp"
NEEDS = frozenset({"stacks", "blocked"})

_FUTEX_WAIT_PRIVATE = 0x80
"""What libgomp and libomp call directly; glibc's semaphores and conditions use FUTEX_WAIT_BITSET (linux/futex.h)."""

_CONTENDED_MUTEX = 2
"""The value a pthread mutex is expected to have while one waits for it (glibc's lowlevellock.h)."""


def claim(knot: Knot) -> Claim | None:
    """A forked child waits in a barrier of native threads."""
    blocked = knot.blocked()
    if knot.ending is not Ending.NOBODY or knot.root is None or blocked is None or blocked.syscall != "futex":
        return None
    if knot.standing().kind is not Wait.FUTEX or not knot.case.is_forked(knot.root[0]):
        return None
    _, operation, value, *_ = blocked.args
    if operation & 0xFF != _FUTEX_WAIT_PRIVATE or value == _CONTENDED_MUTEX:
        return None
    return Claim(
        summary=f"{knot.role()}, the child of a fork, waits{knot.at()} for native threads (OpenMP) "
        "that exist in its parent only",
        evidence=(
            f"futex operation {operation:#x} expecting {value}: neither a mutex nor a semaphore, as libgomp's barriers",
            f"{len(knot.case.threads(knot.root[0]))} Python thread(s) in the child, none of them can wake it",
        ),
        advice=(
            'Start the process with multiprocessing.get_context("spawn") or "forkserver".',
            "Or call torch.set_num_threads(1) in the child before the first operation.",
        ),
        certainty=Certainty.LIKELY,
    )
