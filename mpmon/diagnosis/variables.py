"""Does what the variables of a thread lead to change from reading to reading?

A loop that works and sleeps in one line is found at that line by every look, and the frames of a module's own code show none
of its variables.  What these lead to (`Stack.contents`) shows that such a loop counts, fills or empties something.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mpmon.diagnosis.waits import context
from mpmon.model import Stack

if TYPE_CHECKING:
    from mpmon.diagnosis.history import Look

FEWEST, READINGS = 2, 3
"""Each of the last so many differs from the one before, or of as many as there are: once may be chance."""

NOT_KNOWN = -1
"""The digest of what cannot be seen."""


def keep_changing(looks: Sequence[Look]) -> bool:
    """In code that nobody called on behalf of others: what happens inside of a task that does not end is no progress."""
    stacks = list({id(look.stack): look.stack for look in looks if look.stack and look.stack.contents}.values())
    last = stacks[-READINGS:]
    if len(last) < FEWEST or context(last[-1]) is not None:
        return False
    return all(_differ(before, after) for before, after in pairwise(last))


def _differ(before: Stack, after: Stack) -> bool:
    """A variable of the same call leads to something else."""
    known = {(place, number): digest for place, number, digest in before.contents or ()}
    pairs = [(known.get((place, number)), digest) for place, number, digest in after.contents or ()]
    return any(was is not None and NOT_KNOWN not in (was, digest) and was != digest for was, digest in pairs)
