"""The rules: one file a cause.  Of each recorded hang exactly one claims the knot, in whatever order they are asked
(`tests/scores`): what two could claim is told apart in `parts`.  Should two claim one nobody has seen, the first in `RULES` does.

The graph says *who* must move first; a rule only says *why*, in a sentence, with evidence a person can check by hand and
advice that names the fix.  The docstring of a rule is its manual page (`mpmon explain CAUSE`).

To add a rule: a file `rules/<cause>.py` with `CAUSE`, `NEEDS`, `claim` and a docstring (what it looks like, why, what to
do), one line in `RULES`, and a recorded case in `tests/hangs/`.  Rules do not import one another.
"""

from __future__ import annotations

from typing import Protocol

from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.rules import (
    collective_mismatch,
    collective_missing,
    debugger,
    exit_hang,
    fork_lock,
    fork_openmp,
    fork_thread,
    gil_held,
    io_wait,
    item_lost,
    link_stalled,
    lock_cycle,
    lock_held,
    lock_orphaned,
    main_stuck,
    native_hang,
    pipe_full,
    queue_empty,
    queue_full,
    queue_join,
    rank_dead,
    ranks_elsewhere,
    rendezvous,
    self_deadlock,
    sendrecv_unmatched,
    stopped,
    straggler,
    thread_dead,
    thread_deadlock,
    worker_dead,
    worker_stuck,
)


class Rule(Protocol):
    """What the module of a rule offers."""

    __doc__: str | None

    @property
    def CAUSE(self) -> str:  # noqa: N802  a constant of the module
        """An id of the taxonomy."""
        ...

    @property
    def NEEDS(self) -> frozenset[str]:  # noqa: N802  a constant of the module
        """Tables without which the cause cannot be decided, of those in `mpmon.diagnosis.gaps.FACTS`."""
        ...

    @staticmethod
    def claim(knot: Knot) -> Claim | None:
        """What the rule says about a knot, `None` when it is not its case."""
        ...


RULES: tuple[Rule, ...] = (
    debugger,
    stopped,
    rank_dead,
    link_stalled,
    queue_join,
    pipe_full,
    sendrecv_unmatched,
    collective_missing,
    collective_mismatch,
    rendezvous,
    ranks_elsewhere,
    lock_orphaned,
    queue_full,
    gil_held,
    lock_held,
    lock_cycle,
    queue_empty,
    worker_dead,
    fork_openmp,
    fork_lock,
    fork_thread,
    self_deadlock,
    native_hang,
    exit_hang,
    thread_dead,
    item_lost,
    thread_deadlock,
    io_wait,
    straggler,
    worker_stuck,
    main_stuck,
)
"""The most special first."""
