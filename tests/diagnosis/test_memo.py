"""What is remembered from round to round saves work and changes nothing."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import msgspec
import pytest

from mpmon.codec import TABLES, decode, encode
from mpmon.diagnosis import EventLog, History, Memo, diagnose
from mpmon.diagnosis.memo import others
from mpmon.model import Snapshot
from mpmon.rows import same_rows
from mpmon.session.recording import read_recording
from tests.builders import process, snapshot, stack, thread
from tests.hangs.expected import cases

CASES = cases()
TRAINER, WORKER = process(4100), process(4121, parent=4100, name="pt_data_worker")


def anew(now: Snapshot) -> Snapshot:
    """The same round, of which no row is that of another round."""
    return decode(encode(now), Snapshot)


def sharing(before: Snapshot | None, now: Snapshot) -> Snapshot:
    """As a sampler makes them: rows that say the same as in the round before are those very rows."""
    tables = {name: _shared(getattr(before, name), getattr(now, name)) for name in TABLES} if before else {}
    return msgspec.structs.replace(now, **tables)


def _shared(before: tuple[object, ...], now: tuple[object, ...]) -> tuple[object, ...]:
    rows = tuple(old if old == new else new for old, new in zip_longest(before[: len(now)], now))
    return before if same_rows(rows, before) else rows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_with_and_without_it_all_rounds_say_the_same(case: Path) -> None:
    plain, kept, memory, before = History(), History(), Memo(), None
    one, other = EventLog(), EventLog()
    for now in read_recording(case / "recording.jsonl.gz"):
        plain, before = plain.add(anew(now)), sharing(before, now)
        kept = kept.add(before)
        said, again = diagnose(plain), diagnose(kept, memory)
        assert encode(again) == encode(said)
        one, other = one.add(now, said), other.add(before, again)
    assert list(map(encode, other.log)) == list(map(encode, one.log))


def test_who_is_stirred() -> None:
    rest = snapshot(TRAINER, WORKER, thread(4100), thread(4121), stack("main", "train.py:7 main"))
    ran = msgspec.structs.replace(rest, taken_at=rest.taken_at + 3, threads=(rest.threads[0], thread(4121, slices=11)))
    history = History().add(rest)
    assert history.stirred is None
    history = history.add(msgspec.structs.replace(rest, taken_at=rest.taken_at + 1))
    assert history.stirred == {4100, 4121}, "how much they ran is known now"
    history = history.add(msgspec.structs.replace(rest, taken_at=rest.taken_at + 2))
    assert history.stirred == set()
    history = history.add(ran)
    assert history.stirred == {4121}
    history = history.add(msgspec.structs.replace(ran, taken_at=rest.taken_at + 4, stacks=(stack("main", "a.py:1 f"),)))
    assert history.stirred == {4100}, "it was looked at"
    history = history.add(msgspec.structs.replace(ran, taken_at=rest.taken_at + 5, processes=(TRAINER,)))
    assert history.stirred is None


def test_one_that_rests_is_frozen_some_time_later_though_nothing_has_changed() -> None:
    rest = snapshot(TRAINER, WORKER, thread(4100), thread(4121), stack("main", "train.py:7 main"))
    history, memory = History(), Memo()
    for second in range(8):
        history = history.add(msgspec.structs.replace(rest, taken_at=rest.taken_at + second))
        assert encode(diagnose(history, memory)) == encode(diagnose(history))


def test_rows_that_are_others_than_before() -> None:
    same, old, new = process(1), process(2), process(2)
    assert others((same, old), (same, new)) == [(old, new)]
    assert others((same,), (same, new)) is None
