"""What is kept to look back at: all of the last while, ever less of the time before, the turns longest."""

from __future__ import annotations

import gc
import itertools
import random
import sys
import threading
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpmon.codec import TABLES
from mpmon.diagnosis.findings import Diagnosis, Observation, TrendPoint, Verdict
from mpmon.model import Process, Snapshot
from mpmon.session.recording import read_recording
from mpmon.session.watch import Observer
from mpmon.snapshot_buffer import KEPT_BYTES, TOGETHER, SnapshotBuffer
from mpmon.snapshot_buffer.differences import less, whole
from tests import strategies
from tests.builders import START, after, process, snapshot
from tests.session.hanging import hanging

QUIET = snapshot(process())

REPOSITORY = Path(__file__).parents[1]


def picture(number: int, verdict: Verdict = Verdict.HEALTHY, *, fresh: int = 0) -> Observation:
    """One a second; `fresh` rows are new in it, and say what none before said."""
    chance = random.Random(number)
    rows = tuple(process(5000 + n, rss_bytes=chance.getrandbits(60)) for n in range(fresh))
    shown = msgspec.structs.replace(QUIET, taken_at=START + number, processes=rows or QUIET.processes)
    since = START + 5 if verdict is Verdict.HUNG else None
    return Observation(
        snapshot=shown, diagnosis=Diagnosis(verdict=verdict, since=since), watched_s=float(number), number=number
    )


def filled(*pictures: Observation, most_bytes: int = KEPT_BYTES) -> SnapshotBuffer:
    buffer = SnapshotBuffer(most_bytes)
    for each in pictures:
        buffer.add(each)
    return buffer


def numbers(buffer: SnapshotBuffer) -> list[int]:
    """Of all that are kept, by walking from the newest back."""
    found: list[int] = []
    at = buffer.newest
    while at is not None:
        found.append(at.number)
        at = buffer.before(at.number)
    return found[::-1]


def each(count: int, fresh: int) -> int:
    """Bytes that a picture takes among so many."""
    return filled(*(picture(n, fresh=fresh) for n in range(1, count + 1))).bytes // count


def facts(observation: Observation) -> dict[str, object]:
    """Snapshots and diagnoses are compared by identity, so here by their tables."""
    tables = (("snapshot", observation.snapshot), ("diagnosis", observation.diagnosis))
    return msgspec.structs.asdict(observation) | {name: msgspec.structs.asdict(row) for name, row in tables}


def number(found: Observation | None) -> int | None:
    return found.number if found else None


def test_one_walks_back_and_forth() -> None:
    buffer = filled(picture(1), picture(2), picture(3))
    assert (number(buffer.before(3)), number(buffer.before(2)), number(buffer.before(1))) == (2, 1, None)
    assert (number(buffer.after(1)), number(buffer.after(2)), number(buffer.after(3))) == (2, 3, None)
    assert (number(buffer.after(0)), number(buffer.newest)) == (1, 3)


def test_an_empty_one_has_nothing() -> None:
    buffer = SnapshotBuffer()
    assert (buffer.newest, buffer.before(7), buffer.after(0), buffer.at(START), buffer.hang()) == (None,) * 5


def test_the_picture_of_a_moment_is_the_first_that_is_not_earlier() -> None:
    buffer = filled(picture(1), picture(2), picture(4))
    assert [number(buffer.at(START + second)) for second in (0, 1, 1.5, 3, 4, 5)] == [1, 1, 2, 4, 4, None]


def test_a_hang_began_before_it_was_called_one() -> None:
    buffer = filled(*map(picture, range(1, 10)), picture(10, Verdict.HUNG), picture(11, Verdict.HUNG))
    assert number(buffer.hang()) == 5


def test_of_a_hang_that_is_over_the_beginning_is_still_known() -> None:
    buffer = filled(*map(picture, range(1, 10)), picture(10, Verdict.HUNG), picture(11))
    assert number(buffer.hang()) == 5


def test_a_hang_older_than_all_that_is_kept_begins_where_it_is_first_told() -> None:
    hung = [picture(number, Verdict.HUNG) for number in (9, 10, 11)]
    assert number(filled(picture(6), picture(7), *hung).hang()) == 9
    assert number(filled(*hung).hang()) == 9


def test_without_a_hang_there_is_no_beginning() -> None:
    assert filled(picture(1), picture(2)).hang() is None


def test_with_no_bytes_only_the_newest_is_kept() -> None:
    buffer = filled(picture(1), picture(2, Verdict.HUNG), picture(3), most_bytes=0)
    assert numbers(buffer) == [3]


# What is kept


def test_older_pictures_become_fewer_and_the_newest_stay() -> None:
    buffer = filled(*(picture(n, fresh=10) for n in range(1, 1001)), most_bytes=200 * each(200, 10))
    kept = numbers(buffer)
    gaps = [late - early for early, late in itertools.pairwise(kept)]
    assert 100 <= len(kept) <= 200 + TOGETHER
    assert kept[-50:] == list(range(951, 1001))
    assert gaps[0] >= 4
    assert max(gaps[-50:]) == 1


def test_the_turn_of_the_verdict_is_kept_longest() -> None:
    before = [picture(n, fresh=10) for n in range(1, 20)]
    hung = [picture(n, Verdict.HUNG, fresh=10) for n in range(20, 400)]
    kept = numbers(filled(*before, *hung, most_bytes=60 * each(60, 10)))
    assert {19, 20} <= set(kept)
    assert len(kept) <= 60 + TOGETHER


def test_turns_alone_do_not_grow_without_bound() -> None:
    flapping = [picture(n, (Verdict.SLOW, Verdict.HEALTHY)[n % 2], fresh=10) for n in range(1, 400)]
    kept = numbers(filled(*flapping, most_bytes=60 * each(60, 10)))
    assert kept[-40:] == list(range(360, 400))
    assert len(kept) <= 60 + TOGETHER


@pytest.mark.parametrize("runs", [False, True])
def test_a_job_in_which_nothing_changes_costs_little(runs: bool) -> None:
    """Rows that are the same objects are kept once."""
    pids = range(5000, 5200)
    now = snapshot(process(), *map(process, pids))
    buffer = SnapshotBuffer()
    for n in range(1, 201):
        now = after(now, 1.0, ran=pids if runs else ())
        buffer.add(
            Observation(snapshot=now, diagnosis=Diagnosis(verdict=Verdict.HEALTHY), watched_s=float(n), number=n)
        )
    assert len(numbers(buffer)) == 200
    assert buffer.bytes / 200 < (3000 if runs else 700)


# What it says


def watched(snapshots: Iterable[Snapshot]) -> list[Observation]:
    return list(map(Observer().see, snapshots))


@pytest.mark.parametrize(
    "recording",
    [
        "screenshots/recordings/ddp.jsonl.gz",
        "screenshots/recordings/weights.jsonl.gz",
        "tests/hangs/dl-worker-stopped/recording.jsonl.gz",
        "tests/hangs/ok-torchrun/recording.jsonl.gz",
    ],
)
def test_a_past_picture_says_what_it_said(recording: str) -> None:
    """With GPUs, with the shim, of a hang, of a job that works."""
    pictures = watched(read_recording(REPOSITORY / recording))
    buffer = filled(*pictures)
    shown: list[Observation] = []
    at = buffer.after(0)
    while at is not None:
        shown.append(at)
        at = buffer.after(at.number)
    assert list(map(facts, shown)) == list(map(facts, pictures))


def test_the_beginning_of_a_hang_that_was_packed_says_what_it_said() -> None:
    pictures = watched(hanging())
    began = filled(*pictures).hang()
    assert began is not None
    assert facts(began) == facts(pictures[began.number - 1])
    assert began is not pictures[began.number - 1]


def test_a_picture_that_is_left_after_most_were_dropped_says_what_it_said() -> None:
    pictures = [picture(n, fresh=n % 7) for n in range(1, 700)]
    buffer = filled(*pictures, most_bytes=20 * each(100, 6))
    kept = numbers(buffer)
    assert len(kept) < 100
    for one in kept:
        shown = buffer.before(one + 1)
        assert shown is not None
        assert facts(shown) == facts(pictures[one - 1])


def test_one_may_look_while_others_come() -> None:
    pictures = [picture(n, fresh=3) for n in range(1, 600)]
    buffer = SnapshotBuffer(30 * each(100, 3))
    adding = threading.Thread(target=lambda: [buffer.add(one) for one in pictures])
    adding.start()
    looks = 0
    while adding.is_alive() or not looks:
        for one in numbers(buffer):
            shown = buffer.before(one + 1)
            assert shown is None or facts(shown) == facts(pictures[shown.number - 1])
        looks += 1
    adding.join()


def mixed(chance: random.Random, before: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[Any, ...]:
    """A table that is the same, or has some of its rows and some others, in any order."""
    if chance.random() < 0.6:
        return before
    rows = [row for row in (*before, *others) if chance.random() < 0.7]
    chance.shuffle(rows)
    return tuple(rows[:6])


def next_to(before: Observation, other: Observation, chance: random.Random) -> Observation:
    """A picture after this one that has something of the other one."""
    number = before.number + 1
    told = {table: mixed(chance, getattr(before.snapshot, table), getattr(other.snapshot, table)) for table in TABLES}
    said = {
        table: mixed(chance, getattr(before.diagnosis, table), getattr(other.diagnosis, table))
        for table in ("findings", "remarks", "unchecked", "processes")
    }
    verdict = other.diagnosis.verdict if chance.random() < 0.1 else before.diagnosis.verdict
    moments = [msgspec.structs.replace(row, taken_at=START + number) for row in other.trend[:1]]
    events = [msgspec.structs.replace(row, at=START + number) for row in other.events[: chance.randrange(3)]]
    return msgspec.structs.replace(
        before, number=number,
        snapshot=msgspec.structs.replace(other.snapshot, taken_at=START + number, **told),
        diagnosis=msgspec.structs.replace(other.diagnosis, verdict=verdict, **said),
        trend=(*before.trend[-70:], *moments), events=(*before.events[-9:], *events),
    )  # fmt: skip


@pytest.fixture(scope="module")
def kinds() -> list[Observation]:
    """Pictures of real jobs that have little in common."""
    recordings = ("screenshots/recordings/ddp.jsonl.gz", "tests/hangs/dl-worker-stopped/recording.jsonl.gz")
    return [one for recording in recordings for one in watched(read_recording(REPOSITORY / recording))[::20]]


@given(seed=st.integers(0), count=st.integers(1, 300), most_kib=st.sampled_from([4, 16, 64, 1 << 20]))
@settings(max_examples=30)
def test_whatever_is_kept_says_what_it_said(kinds: list[Observation], seed: int, count: int, most_kib: int) -> None:
    chance = random.Random(seed)
    pictures = [next_to(msgspec.structs.replace(kinds[0], number=0, trend=(), events=()), kinds[1], chance)]
    while len(pictures) < count:
        pictures.append(next_to(pictures[-1], chance.choice(kinds), chance))
    buffer = SnapshotBuffer(most_kib << 10)
    for one in pictures:
        buffer.add(one)
        assert buffer.bytes <= most_kib << 10
    kept = numbers(buffer)
    assert kept[-1] == count
    assert kept == list(range(1, count + 1)) or most_kib < 1 << 20
    for place, one in enumerate(kept):
        picture = pictures[one - 1]
        again = buffer.at(picture.snapshot.taken_at)
        assert again is not None
        assert facts(again) == facts(picture)
        assert buffer.moment(one) == picture.snapshot.taken_at
        assert number(buffer.after(one)) == (kept[place + 1] if place + 1 < len(kept) else None)


@given(strategies.changed(picture(1)), strategies.changed(picture(2)))
def test_whatever_is_in_a_picture_comes_back(one: Observation, other: Observation) -> None:
    buffer = filled(
        msgspec.structs.replace(one, number=1), msgspec.structs.replace(other, number=2), *map(picture, range(3, 30))
    )
    shown = [buffer.before(2), buffer.before(3)]
    assert [facts(row) | {"number": 0} for row in shown if row] == [facts(row) | {"number": 0} for row in (one, other)]


ROWS = [process(5000 + n) for n in range(12)]
"""Compared by identity: a table may have some of them, in any order."""

SOME_ROWS = st.lists(st.sampled_from(ROWS), max_size=12, unique_by=id).map(tuple)


@given(SOME_ROWS, SOME_ROWS, st.booleans())
def test_a_table_is_made_of_what_is_new_and_of_the_other_one(
    before: tuple[Process, ...], other: tuple[Process, ...], same: bool
) -> None:
    base = msgspec.structs.replace(QUIET, processes=before)
    row = msgspec.structs.replace(QUIET, processes=before if same else other)
    new, places = less(row, base, ("processes", "threads"))
    assert set(map(id, new.processes)) >= set(map(id, row.processes)) - set(map(id, before))
    again = whole(new, base, ("processes", "threads"), places)
    assert list(map(id, again.processes)) == list(map(id, row.processes))
    assert again.threads is QUIET.threads


# What it takes


def test_moments_of_packed_pictures_are_kept_as_bytes_only() -> None:
    moments = [TrendPoint(START + second, (), (), {}) for second in range(100)]
    buffer = SnapshotBuffer()
    for second in range(100):
        trend = tuple(moments[max(0, second - 9) : second + 1])
        buffer.add(msgspec.structs.replace(picture(second), trend=trend))
    assert sys.getrefcount(moments[0]) == sys.getrefcount(TrendPoint(START, (), (), {})) + 1


OURS = [tracemalloc.Filter(True, f"{REPOSITORY}/mpmon/{place}") for place in ("snapshot_buffer/*", "codec.py")]
"""Where what is kept is allocated, but for the pictures themselves."""


def test_what_it_says_it_takes_is_what_it_takes() -> None:
    most_bytes = 256 << 10
    tracemalloc.start()
    try:
        buffer = SnapshotBuffer(most_bytes)
        for number in range(1, 1001):
            buffer.add(picture(number, fresh=10))
        gc.collect()
        traces = tracemalloc.take_snapshot().filter_traces(OURS)
    finally:
        tracemalloc.stop()
    taken = sum(trace.size for trace in traces.traces)
    assert len(numbers(buffer)) < 900
    assert most_bytes / 2 < buffer.bytes <= most_bytes
    assert abs(taken - buffer.bytes) < 0.1 * most_bytes
