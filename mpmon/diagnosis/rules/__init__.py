"""The rules: one file per cause.  For each recorded hang exactly one rule matches the stuck set, regardless of the order in which
they are tried (`tests/scores`): `parts` separates cases that two rules could match.  If two match an unknown stuck set, the
first in `RULES` wins.

The graph says *who* blocks the others; a rule only says *why*, in a sentence, with evidence that can be checked by hand and
advice that names the fix.  The docstring of a rule is its manual page (`mpmon explain CAUSE`).

To add a rule: a file `rules/<cause>.py` with `CAUSE`, `NEEDS`, `match` and a docstring (what it looks like, why, what to
do), one line in `RULES`, and a recorded case in `tests/hangs/`.  Rules do not import one another.
"""

from __future__ import annotations

from typing import Protocol

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
    shm_exhausted,
    stopped,
    straggler,
    thread_dead,
    thread_deadlock,
    worker_dead,
    worker_stuck,
)
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet


class Rule(Protocol):
    """The interface of a rule's module."""

    __doc__: str | None

    @property
    def CAUSE(self) -> str:  # noqa: N802  a constant of the module
        """An id of the taxonomy."""
        ...

    @property
    def NEEDS(self) -> frozenset[str]:  # noqa: N802  a constant of the module
        """The tables of `mpmon.diagnosis.missing_data.FACTS` without which the cause cannot be decided."""
        ...

    @staticmethod
    def match(stuck: StuckSet) -> Match | None:
        """The rule's explanation of a stuck set; `None` if it does not match."""
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
    shm_exhausted,
    thread_deadlock,
    io_wait,
    straggler,
    worker_stuck,
    main_stuck,
)
"""The most specific first."""
