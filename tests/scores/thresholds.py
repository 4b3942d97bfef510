"""How much hangs on each threshold: `python -m tests.scores.thresholds [NAME …]`.

Each constant of `mpmon.diagnosis.thresholds` is made as small and as large as can be, and where that makes a difference halved
and doubled, and all recordings are replayed.  Of how many is then something else said (verdict, cause or suspects), and of how
many of these something that is not true?
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from mpmon.diagnosis import thresholds
from tests.hangs.expected import Expected, cases, read_expected
from tests.scores.replay import Said, said

LEAST, HUGE = 1e-9, 1_000_000
"""Of a count the least is 1."""


def names() -> list[str]:
    """Of all thresholds, in the order of the table."""
    return [name for name in vars(thresholds) if name.isupper()]


def effects(name: str) -> dict[str, str]:
    """By what is done to its value."""
    value = getattr(thresholds, name)
    counts = isinstance(value, int)
    found = {"least": effect(name, 1 if counts else LEAST), "huge": effect(name, HUGE)}
    if any(found.values()):
        found["halved"] = effect(name, max(1, value // 2) if counts else value / 2)
        found["doubled"] = effect(name, 2 * value)
    return found


def effect(name: str, value: float, among: Sequence[Path] | None = None) -> str:
    """Of a value: `12 changed, 3 wrong`; empty where all recordings, or those `among` them, are told as they are."""
    among = cases() if among is None else among
    today = getattr(thresholds, name)
    with pytest.MonkeyPatch.context() as patch:
        for module in [row for at, row in sys.modules.items() if at.startswith("mpmon.diagnosis")]:
            # A remark may call its own number so.
            if vars(module).get(name) == today:
                patch.setattr(module, name, value)
        try:
            told = {case: said(case) for case in among}
        except (TypeError, ValueError):
            return "too few to compare"
    changed = [case for case in among if told[case] != _today(case)]
    wrong = [case for case in changed if not _is_true(read_expected(case), told[case])]
    return f"{len(changed)} changed, {len(wrong)} wrong" if changed else ""


@cache
def _today(case: Path) -> tuple[Said, ...]:
    """With the values of the table."""
    return said(case)


def _is_true(expected: Expected, told: tuple[Said, ...]) -> bool:
    """A job that works never hangs; a hang is found at last, with its cause, and nobody else is suspected."""
    if not expected.hangs:
        return all(row.verdict != "hung" for row in told)
    return told[-1].cause in expected.causes and told[-1].suspects <= set(expected.suspects)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.scores.thresholds", description="What recordings say with other thresholds."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a threshold; default: all")
    found = parser.parse_args().names or names()
    for case in cases():
        _today(case)
    print(f"{len(cases())} recordings")
    for name in found:
        told = (f"{how} {effect or 'nothing'}" for how, effect in effects(name).items())
        print(f"{name} = {getattr(thresholds, name):g}: {'; '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
