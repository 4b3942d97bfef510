"""A recording says the same each time, in whatever order its rows come."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from mpmon.codec import TABLES, encode
from mpmon.diagnosis.findings import Diagnosis, Observation
from mpmon.model import Row, Snapshot
from mpmon.reports.document import document
from mpmon.session.watch import ReplayWatch
from tests.diagnosis.test_invariance import diagnosed, said
from tests.hangs.expected import cases

CASES = cases()


class Shuffled:
    """The same rounds with the rows of each table in another order; a table that did not change stays the same object."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._tables: dict[int, tuple[tuple[Row, ...], tuple[Row, ...]]] = {}

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        """One round."""
        return msgspec.structs.replace(snapshot, **{name: self._table(getattr(snapshot, name)) for name in TABLES})

    def _table(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        if id(rows) not in self._tables:
            self._tables[id(rows)] = (rows, tuple(self._random.sample(rows, len(rows))))
        return self._tables[id(rows)][1]


def reports(case: Path) -> list[bytes]:
    """What is said after each round."""
    observations: list[Observation] = list(ReplayWatch(case / "recording.jsonl.gz", at_once=True))
    return [encode(document(observation)) for observation in observations]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_twice_is_the_same(case: Path) -> None:
    assert reports(case) == reports(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_order_of_rows_does_not_matter(case: Path) -> None:
    straight = unordered(diagnosed(case))
    for seed in range(3):
        assert unordered(diagnosed(case, Shuffled(seed))) == straight


def unordered(diagnosis: Diagnosis) -> list[tuple[object, ...]]:
    """What is said; of several suspects or waiters none is the first."""
    return [
        tuple(sorted(map(repr, part)) if isinstance(part, list) else part for part in row) for row in said(diagnosis)
    ]
