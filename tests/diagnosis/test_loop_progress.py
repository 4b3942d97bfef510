"""Loops in the job's own code, which nobody called on behalf of others: which of them get on, and which go round in circles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.model import Row
from tests.builders import ROOT, blocked, diagnosed, frame, process, running, snapshot, stack, thread

WORKER = 4121
LOOP = 1
"""Place of the frame with the loop, counted from the outermost."""

IDLE = ("torch/utils/data/_utils/worker.py:300 _worker_loop", "multiprocessing/process.py:108 BaseProcess._bootstrap")

Rows = tuple[Row, ...]


def worker(*, idle: bool = True) -> Rows:
    """Of the trainer's DataLoader; it waits for the next index, or stands in the dataset."""
    get = ("multiprocessing/connection.py:1 poll", "multiprocessing/queues.py:113 Queue.get")
    inner = get if idle else ("data.py:4 __getitem__", "torch/utils/data/_utils/fetch.py:51 fetch")
    return (
        process(WORKER, parent=ROOT),
        thread(WORKER),
        stack("main", *inner, *IDLE, pid=WORKER),
        blocked("poll", pid=WORKER),
    )


def search(
    at: int,
    *,
    turns: tuple[tuple[int, ...], ...] | None = (),
    contents: tuple[tuple[int, int, int], ...] | None = (),
    line: int | None = None,
    value: int = 1,
    trend: int = 0,
    plain: bool = True,
    argument: int = 7,
    written: int = 0,
    torn: bool = False,
    turning: tuple[int, ...] = (),
) -> Rows:
    """A trainer in `find`, called by `main`, at one of two lines with one of two values of what is no plain variable."""
    line = 20 + at % 2 if line is None else line
    loop = frame(f"job.py:{line} find", arguments=argument, others=at % 2)
    loop = msgspec.structs.replace(
        loop, plain={"candidate": value} if plain else None, trend={"candidate": trend} if trend else None
    )
    frames = ("job.py:9 cost",) if torn else (loop, "job.py:50 main")
    found = msgspec.structs.replace(
        stack("main", *frames, at=at), turns=turns, contents=contents, turning=turning, owns_gil=True
    )
    return msgspec.structs.replace(process(), written_bytes=written), thread(slices=at), found, running()


def seen(rows: Callable[[int], Rows], seconds: int = 14) -> Diagnosis:
    return diagnosed([snapshot(*rows(second), at=float(second)) for second in range(seconds)])


def test_a_search_that_never_finds_what_it_looks_for() -> None:
    found = seen(lambda at: (*search(at), *worker()))
    (finding,) = found.findings
    assert (finding.cause, [row.pid for row in finding.suspects]) == ("main-stuck", [ROOT])
    assert finding.certainty is Certainty.POSSIBLE
    assert finding.suspects[0].frame
    assert finding.suspects[0].frame.function == "find"


GOES_ROUND: dict[str, Callable[[int], dict[str, Any]]] = {
    "it tries one after the other, not in order": lambda at: {"value": at, "trend": (1, -1)[at % 3 == 0]},
    "a loop inside of it left something behind": lambda at: {"turns": ((0x70, 1 + at % 4, LOOP),) if at % 2 else ()},
    "some readings are torn": lambda at: {"torn": at % 5 == 1},
    "where its variables lead nothing is new": lambda _: {"contents": ((LOOP, 0, 5), (LOOP, 1, 6))},
    "an object is now this and now that": lambda at: {"contents": ((LOOP, 0, at % 3),)},
    "an object was read while it was written": lambda at: {"contents": ((LOOP, 0, 77 if at == 9 else 5),)},
    "something is new in a call inside of it": lambda at: {"contents": ((LOOP + 1, 0, at),)},
    "a tensor that cannot be seen is in a call around it": lambda _: {"contents": ((LOOP - 1, 0, -1),)},
    "it got on before": lambda at: {"contents": ((LOOP, 0, min(at, 3)),)},
    "it stays in one line and turns": lambda at: {"line": 20, "turning": (LOOP,) if at % 3 else ()},
    "it counted before": lambda at: {"value": min(at, 3), "trend": int(0 < at <= 3)},
}


@pytest.mark.parametrize("way", GOES_ROUND.values(), ids=GOES_ROUND)
def test_one_that_goes_round_in_circles(way: Callable[[int], dict[str, Any]]) -> None:
    assert seen(lambda at: (*search(at, **way(at)), *worker())).verdict is Verdict.HUNG


GETS_ON: dict[str, Callable[[int], dict[str, Any]]] = {
    "it goes through a list": lambda at: {"turns": ((0x70, at, LOOP),)},
    "it goes through something whose position is not known": lambda _: {"turns": ((0x70, -1, LOOP),)},
    "it counts": lambda at: {"value": at, "trend": 1},
    "it counts down": lambda at: {"value": at, "trend": -1},
    "it has another text each time": lambda at: {"value": at},
    "it is called anew": lambda at: {"argument": at},
    "it writes": lambda at: {"written": at // 5},
    "nobody knows what it goes through": lambda _: {"turns": None},
    "it counts now and then": lambda at: {"value": at // 4, "trend": int(at % 4 == 0)},
    "it counts, and one reading is torn": lambda at: {"value": at if at - 9 else 0, "trend": -1 if at == 9 else 1},
    "an object is another one each time": lambda at: {"contents": ((LOOP, 0, at),)},
    "an object of the call around it is another one each time": lambda at: {"contents": ((LOOP - 1, 0, at),)},
    "an object was another one lately": lambda at: {"contents": ((LOOP, 0, at >= 9),)},
    "it has a tensor that cannot be seen": lambda _: {"contents": ((LOOP, 0, -1),)},
    "nobody knows what its variables lead to": lambda _: {"contents": None},
    "a loop inside of it takes long and advances": lambda at: {"turns": ((0x70, at, LOOP + 1),)},
    "nothing is known of its variables": lambda _: {"plain": False},
    "it stays in one line": lambda _: {"line": 20},
    "it turns in one line, and a number changes": lambda at: {"line": 20, "turning": (LOOP,), "value": at % 2},
    "it turns in one line, and an object changes": lambda at: {
        "line": 20,
        "turning": (LOOP,),
        "contents": ((LOOP, 0, at % 2),),
    },
    "it goes down line by line": lambda at: {"line": 20 + at},
}


@pytest.mark.parametrize("way", GETS_ON.values(), ids=GETS_ON)
def test_one_that_gets_on(way: Callable[[int], dict[str, Any]]) -> None:
    assert seen(lambda at: (*search(at, **way(at)), *worker())).verdict is Verdict.HEALTHY


def test_what_goes_on_inside_of_the_loop_and_around_it_is_no_matter() -> None:
    """A loop in a call that comes again and again moves, and what the loop around it goes through stands."""
    found = seen(lambda at: (*search(at, turns=((0x70, at % 3, LOOP + 1), (0x80, 5, LOOP - 1))), *worker()))
    assert found.verdict is Verdict.HUNG


@pytest.mark.parametrize("others", [(), worker(idle=False)], ids=["alone", "beside one at work"])
def test_one_that_keeps_nobody_waiting_may_compute(others: Rows) -> None:
    assert seen(lambda at: (*search(at), *others)).verdict is Verdict.HEALTHY
