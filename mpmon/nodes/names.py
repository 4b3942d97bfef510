"""Names of many machines in compact form, as schedulers and ClusterShell write and read them: `n[0-3,8-7999],login`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from mpmon.spans import spans

LONGEST = 400
"""Longest text, in characters; names without a pattern cannot be shortened by folding."""

_NUMBERED = re.compile(r"(.*?)(\d{1,9})(\D*)\Z", re.DOTALL)

_Form = tuple[str, int, str]
"""The text before the number, its digits if it has leading zeros, and the text behind it."""


def folded(names: Iterable[str]) -> str:
    """All of these names; for those that do not fit, their count."""
    numbers: dict[_Form, list[int]] = defaultdict(list)
    plain: list[str] = []
    found = [(name, _NUMBERED.match(name)) for name in dict.fromkeys(names)]
    padded = {(at[1], at[3], len(at[2])) for _, at in found if at and at[2].startswith("0") and len(at[2]) > 1}
    for name, at in found:
        if at is None:
            plain.append(name)
        else:
            digits = len(at[2]) if (at[1], at[3], len(at[2])) in padded else 0
            numbers[at[1], digits, at[3]].append(int(at[2]))
    parts = [(_written(form, numbers[form]), len(numbers[form])) for form in numbers]
    return _in_bounds([*parts, *((name, 1) for name in plain)])


def _written(form: _Form, numbers: list[int]) -> str:
    before, digits, behind = form
    if len(numbers) == 1:
        return f"{before}{numbers[0]:0{digits}d}{behind}"
    said = (
        f"{first:0{digits}d}" if first == last else f"{first:0{digits}d}-{last:0{digits}d}"
        for first, last in spans(numbers)
    )
    return f"{before}[{','.join(said)}]{behind}"


def _in_bounds(parts: list[tuple[str, int]]) -> str:
    kept: list[str] = []
    for at, (text, _) in enumerate(parts):
        if sum(map(len, kept)) + len(text) > LONGEST:
            left = sum(count for _, count in parts[at:])
            return ", ".join(filter(None, (",".join(kept), f"{left} {'others' if kept else 'machines'}")))
        kept.append(text)
    return ",".join(kept)
