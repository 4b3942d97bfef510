"""What is not known of a row, and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def not_known(reasons: Iterable[tuple[str, str]], words: Mapping[str, str]) -> Iterator[str]:
    """`not known: power, temperature (not supported on MIG)`, a line for each reason.

    Args:
        reasons: Fields that are `None`, and why.
        words: Fields in words; those that are not among them are not shown anyway.
    """
    fields: defaultdict[str, list[str]] = defaultdict(list)
    for field, reason in reasons:
        if field in words:
            fields[reason].append(words[field])
    yield from (f"not known: {', '.join(found)} ({reason})" for reason, found in fields.items())
