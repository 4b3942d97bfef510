"""The rules: one file a cause, asked in the order of the table `RULES`; the first that claims a knot names its cause.

The graph says *who* must move first; a rule only says *why*, in a sentence, with evidence a person can check by hand and
advice that names the fix.  The docstring of a rule is its manual page (`mpmon explain CAUSE`).

To add a rule: a file `rules/<cause>.py` with `CAUSE`, `claim` and a docstring (what it looks like, why, what to do), one
line in `RULES`, and a recorded case in `tests/hangs/`.  Rules do not import one another.
"""

from __future__ import annotations

from typing import Protocol

from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.rules import (
    debugger,
    fork_lock,
    io_wait,
    item_lost,
    lock_held,
    main_stuck,
    stopped,
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

    @staticmethod
    def claim(knot: Knot) -> Claim | None:
        """What the rule says about a knot, `None` when it is not its case."""
        ...


RULES: tuple[Rule, ...] = (
    debugger,
    stopped,
    worker_dead,
    fork_lock,
    item_lost,
    lock_held,
    io_wait,
    worker_stuck,
    main_stuck,
)
"""The most special first."""
