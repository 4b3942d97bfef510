"""Remarks: what a person should know that is no hang. One file a topic.

To add one: a file here with `TOPIC`, a docstring that ends as a manual page does, and `remarks`; and a line in `TOPICS`.
A topic asks the case, never another topic.  What it may not know it does not say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.findings import Remark


class Topic(Protocol):
    """What a module of this package offers."""

    TOPIC: str
    __doc__: str | None

    def remarks(self, case: Case) -> Iterator[Remark]:
        """What there is to say now."""
        ...


TOPICS = cast("tuple[Topic, ...]", ())
"""In the order in which they are told: the worst first."""


def remarks(case: Case) -> tuple[Remark, ...]:
    """All that there is to say of this moment."""
    return tuple(remark for topic in TOPICS for remark in topic.remarks(case))
