"""What is kept to look back at: all of the last while, ever less of the time before, the turns longest."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Observation, Verdict
from mpmon.reel import ROW_BYTES, Reel
from tests.builders import START, after, process, snapshot

QUIET = snapshot(process())


def picture(number: int, verdict: Verdict = Verdict.HEALTHY, *, fresh: int = 0) -> Observation:
    """One a second; `fresh` rows are new in it."""
    rows = tuple(process(5000 + n) for n in range(fresh))
    shown = msgspec.structs.replace(QUIET, taken_at=START + number, processes=rows or QUIET.processes)
    since = START + 5 if verdict is Verdict.HUNG else None
    return Observation(
        snapshot=shown, diagnosis=Diagnosis(verdict=verdict, since=since), watched_s=float(number), number=number
    )


def filled(*pictures: Observation, most_bytes: int = 1 << 30) -> Reel:
    reel = Reel(most_bytes)
    for each in pictures:
        reel.add(each)
    return reel


def numbers(reel: Reel) -> list[int]:
    """Of all that are kept, by walking from the newest back."""
    found: list[int] = []
    at = reel.newest
    while at is not None:
        found.append(at.number)
        at = reel.before(at.number)
    return found[::-1]


def number(found: Observation | None) -> int | None:
    return found.number if found else None


def test_one_walks_back_and_forth() -> None:
    reel = filled(picture(1), picture(2), picture(3))
    assert (number(reel.before(3)), number(reel.before(2)), number(reel.before(1))) == (2, 1, None)
    assert (number(reel.after(1)), number(reel.after(2)), number(reel.after(3))) == (2, 3, None)
    assert (number(reel.after(0)), number(reel.newest)) == (1, 3)


def test_an_empty_one_has_nothing() -> None:
    reel = Reel()
    assert (reel.newest, reel.before(7), reel.after(0), reel.at(START), reel.hang()) == (None,) * 5


def test_the_picture_of_a_moment_is_the_first_that_is_not_earlier() -> None:
    reel = filled(picture(1), picture(2), picture(4))
    assert [number(reel.at(START + second)) for second in (0, 1, 1.5, 3, 4, 5)] == [1, 1, 2, 4, 4, None]


def test_a_hang_began_before_it_was_called_one() -> None:
    reel = filled(*map(picture, range(1, 10)), picture(10, Verdict.HUNG), picture(11, Verdict.HUNG))
    assert number(reel.hang()) == 5


def test_of_a_hang_that_is_over_the_beginning_is_still_known() -> None:
    reel = filled(*map(picture, range(1, 10)), picture(10, Verdict.HUNG), picture(11))
    assert number(reel.hang()) == 5


def test_a_hang_older_than_all_that_is_kept_begins_where_it_is_first_told() -> None:
    hung = [picture(number, Verdict.HUNG) for number in (9, 10, 11)]
    assert number(filled(picture(6), picture(7), *hung).hang()) == 9
    assert number(filled(*hung).hang()) == 9


def test_without_a_hang_there_is_no_beginning() -> None:
    assert filled(picture(1), picture(2)).hang() is None


def test_with_no_bytes_only_the_newest_is_kept() -> None:
    reel = filled(picture(1), picture(2, Verdict.HUNG), picture(3), most_bytes=0)
    assert numbers(reel) == [3]


def test_older_pictures_become_fewer_and_the_newest_stay() -> None:
    reel = filled(*(picture(n, fresh=10) for n in range(1, 201)), most_bytes=64 * 11 * ROW_BYTES)
    kept = numbers(reel)
    gaps = [late - early for early, late in itertools.pairwise(kept)]
    assert 16 <= len(kept) <= 64
    assert kept[-8:] == list(range(193, 201))
    assert gaps[0] > 1


def test_the_turn_of_the_verdict_is_kept_longest() -> None:
    before = [picture(n, fresh=10) for n in range(1, 20)]
    hung = [picture(n, Verdict.HUNG, fresh=10) for n in range(20, 200)]
    kept = numbers(filled(*before, *hung, most_bytes=40 * 11 * ROW_BYTES))
    assert {19, 20} <= set(kept)
    assert len(kept) < 50


def test_turns_alone_do_not_grow_without_bound() -> None:
    flapping = [picture(n, (Verdict.SLOW, Verdict.HEALTHY)[n % 2], fresh=10) for n in range(1, 300)]
    kept = numbers(filled(*flapping, most_bytes=20 * 11 * ROW_BYTES))
    assert kept[-1] == 299
    assert len(kept) <= 21


@pytest.mark.parametrize("runs", [False, True])
def test_a_job_in_which_nothing_changes_costs_little(runs: bool) -> None:
    """Rows that are the same objects are counted once."""
    pids = range(5000, 5020)
    now = snapshot(process(), *map(process, pids))
    reel = Reel(400 * ROW_BYTES)
    for n in range(1, 201):
        now = after(now, 1.0, ran=pids if runs else ())
        diagnosis = Diagnosis(verdict=Verdict.HEALTHY)
        reel.add(Observation(snapshot=now, diagnosis=diagnosis, watched_s=1.0, number=n))
    assert len(numbers(reel)) <= 20 if runs else len(numbers(reel)) == 200
