"""A recording that is played, held, gone back in, and read on to the hang."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mpmon.session.recording import count_rounds
from mpmon.session.watch import ReplayWatch
from tests.patience import NEVER_S, becomes
from tests.session.hanging import HANGS, WORKS, record

ALL = WORKS + HANGS


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return record(tmp_path / "hang.jsonl.gz")


@pytest.fixture
def replay(file: Path) -> ReplayWatch:
    """So fast that no picture has to be waited for."""
    watch = ReplayWatch(file)
    watch.speed = 1e9
    return watch


def test_at_once_gives_all_and_ends(file: Path) -> None:
    seen = [observation.number for observation in ReplayWatch(file, at_once=True)]
    assert seen == list(range(1, ALL + 1))


def test_at_once_keeps_only_the_newest(file: Path) -> None:
    watch = ReplayWatch(file, at_once=True)
    assert [observation.number for observation in watch][-1] == ALL
    assert watch.buffer.newest is not None
    assert watch.buffer.before(ALL) is None


def test_it_plays_on_from_where_one_went(replay: ReplayWatch) -> None:
    played = iter(replay)
    assert [next(played).number for _ in range(8)] == list(range(1, 9))
    replay.go(3)
    assert [next(played).number for _ in range(7)] == list(range(4, 11))


def test_what_is_seen_again_is_the_very_same(replay: ReplayWatch) -> None:
    played = iter(replay)
    seen = [next(played) for _ in range(5)]
    replay.go(1)
    assert next(played) is seen[1]


def test_steps_while_paused(replay: ReplayWatch) -> None:
    played = iter(replay)
    assert next(played).number == 1
    replay.pause(True)
    replay.step()
    replay.step()
    assert [next(played).number for _ in range(2)] == [2, 3]
    replay.pause(False)
    assert next(played).number == 4


def test_steps_that_were_not_taken_are_forgotten(replay: ReplayWatch) -> None:
    played = iter(replay)
    next(played)
    replay.pause(True)
    for _ in range(5):
        replay.step()
    replay.go(20)
    replay.go(0)
    replay.step()
    assert next(played).number == 1
    with held(played) as thread:
        thread.join(0.2)
        assert thread.is_alive()
        replay.stop()


def test_the_hang_is_found_where_it_began(replay: ReplayWatch) -> None:
    played = iter(replay)
    next(played)
    replay.find_hang()
    assert next(played).number == WORKS
    replay.step()
    assert next(played).number == WORKS + 1


def test_without_a_hang_it_goes_to_the_end(tmp_path: Path) -> None:
    path = record(tmp_path / "works.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: WORKS + 1]))
    replay = ReplayWatch(path)
    played = iter(replay)
    replay.find_hang()
    found = next(played)
    assert (found.number, found.diagnosis.verdict.value) == (WORKS, "healthy")


def test_it_is_held_at_its_end_until_one_goes_back(replay: ReplayWatch) -> None:
    played = iter(replay)
    assert [next(played).number for _ in range(ALL)][-1] == ALL
    with held(played) as thread:
        thread.join(0.2)
        assert thread.is_alive()
        replay.go(7)
        thread.join(NEVER_S)
        assert thread.numbers == [8]


@pytest.mark.parametrize("wish", ["pause", "stop"])
def test_a_wait_ends_with_a_wish(file: Path, wish: str) -> None:
    """Played as slowly as this the second picture would come in a century."""
    watch = ReplayWatch(file)
    watch.speed = 1e-9
    played = iter(watch)
    assert next(played).number == 1
    with held(played) as thread:
        if wish == "pause":
            watch.pause(True)
            watch.step()
            thread.join(NEVER_S)
            assert thread.numbers == [2]
        watch.stop()


def test_its_length_is_counted_beside(replay: ReplayWatch) -> None:
    played = iter(replay)
    next(played)
    assert becomes(lambda: replay.length == ALL)


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_rounds_are_counted_without_one_that_was_cut(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name)
    assert count_rounds(path) == ALL
    path.write_bytes(path.read_bytes()[:-30])
    assert 0 < count_rounds(path) < ALL


class held(threading.Thread):  # noqa: N801  reads as a state
    """Waits for the next picture in another thread."""

    def __init__(self, played: object) -> None:
        super().__init__(daemon=True)
        self.played = played
        self.numbers: list[int] = []

    def run(self) -> None:
        found = next(self.played, None)  # type: ignore[call-overload]
        self.numbers += [found.number] if found else []

    def __enter__(self) -> held:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join(NEVER_S)
        assert not self.is_alive()
