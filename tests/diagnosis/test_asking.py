"""Loops that sleep and find the same each time: of a rank, while the others wait for it in a collective, and of a task, while
the interpreter wants to end.
"""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import Handle, Row
from tests.builders import ROOT, START, blocked, diagnosed, frame, process, running, snapshot, stack, thread

RANK, OTHER, EXPORTER = 4110, 4111, 4120
BARRIER = ("torch/distributed/distributed_c10d.py:5356 barrier", "train.py:31 train")
HIDDEN = -1


def asks(second: int, answer: int, *, reads: int = 0, writes: int = 0) -> tuple[Row, ...]:
    """Rank 0 sleeps, and every time its variable is bound to a new object, which leads to this."""
    environment = {"RANK": "0", "WORLD_SIZE": "2"}
    found = stack("main", frame("train.py:25 wait_for_export", others=second), pid=RANK, at=second)
    return (
        process(
            RANK, parent=ROOT, environment=environment, read_bytes=reads * second, written_bytes=writes * second
        ),
        thread(RANK, slices=4 * second), msgspec.structs.replace(found, contents=((0, 1, answer),)),
        blocked("clock_nanosleep", pid=RANK, wakes_at=START + second + 0.2),
    )  # fmt: skip


def waits(*, slices: int = 9) -> tuple[Row, ...]:
    environment = {"RANK": "1", "WORLD_SIZE": "2"}
    return (
        process(OTHER, parent=ROOT, environment=environment), thread(OTHER, slices=slices),
        stack("main", *BARRIER, pid=OTHER), blocked("futex", pid=OTHER, ran_at=START - 60),
    )  # fmt: skip


JOINS = (
    process(), stack("main", "torch/multiprocessing/spawn.py:140 join", "train.py:40 <module>"),
    blocked("poll", f"process:{RANK}", f"process:{OTHER}", ran_at=START - 60),
)  # fmt: skip


def said(*rows: tuple[Row, ...], more: tuple[Row, ...] = (), other: tuple[Row, ...] = ()) -> Diagnosis:
    """What is said when rank 0 looked like this in each second."""
    return diagnosed(
        [snapshot(*JOINS, *row, *(other or waits()), *more, at=float(second)) for second, row in enumerate(rows)]
    )


def names_it(found: Diagnosis) -> bool:
    return found.verdict is Verdict.HUNG and [row.pid for row in found.findings[0].suspects] == [RANK]


SECONDS = range(12)


def test_the_same_answer_in_new_objects() -> None:
    assert names_it(said(*(asks(second, 77) for second in SECONDS)))


@pytest.mark.parametrize("answers", [range(12), [HIDDEN] * 12, [7] * 9 + [8] * 3], ids=["others", "unseen", "lately"])
def test_answers_that_may_change(answers: list[int]) -> None:
    assert said(*(asks(second, answers[second]) for second in SECONDS)).verdict is not Verdict.HUNG


def test_while_no_rank_stands_still() -> None:
    """All ranks of a synthetic job may compute the same in each turn."""
    steps = [snapshot(*JOINS, *asks(second, 77), *waits(slices=50 * second), at=float(second)) for second in SECONDS]
    assert diagnosed(steps).verdict is not Verdict.HUNG


def test_a_file_that_is_read_anew_each_time() -> None:
    assert names_it(said(*(asks(second, 77, reads=244) for second in SECONDS)))


def test_messages_that_it_is_still_waiting() -> None:
    assert names_it(said(*(asks(second, 77, writes=20) for second in SECONDS), more=(opened(1),)))


def opened(descriptor: int) -> Handle:
    return Handle(pid=RANK, object=f"file:1:{descriptor}", fd=descriptor, path=f"/home/ada/{descriptor}")


@pytest.mark.parametrize(("reads", "writes"), [(4096, 0), (0, 4096)], ids=["reads", "writes"])
def test_a_file_that_it_keeps_open_may_be_what_gets_on(reads: int, writes: int) -> None:
    found = said(*(asks(second, 77, reads=reads, writes=writes) for second in SECONDS), more=(opened(5),))
    assert found.verdict is not Verdict.HUNG


def test_while_another_process_works_for_it() -> None:
    """An exporter that computes may yet write what rank 0 asks for."""

    def rows(second: int) -> tuple[Row, ...]:
        works = stack("main", f"train.py:{10 + second} export", pid=EXPORTER, at=second)
        return process(EXPORTER, parent=ROOT), thread(EXPORTER, slices=9 * second), works, running(EXPORTER)

    found = said(*((*asks(second, 77), *rows(second)) for second in SECONDS))
    assert found.verdict is Verdict.SLOW


# A task at the end of the program

TASK = (
    "train.py:27 telemetry",
    "concurrent/futures/thread.py:58 _WorkItem.run",
    "concurrent/futures/thread.py:83 _worker",
)
EXITS = ("lib/threading.py:1139 Thread._wait_for_tstate_lock", "lib/threading.py:1593 _shutdown")
JOINS_IT = (
    "lib/threading.py:1139 Thread._wait_for_tstate_lock",
    "concurrent/futures/thread.py:235 shutdown",
    "train.py:9 main",
)


def writes_at_exit(
    contents: int, second: int, *frames: str, main: tuple[str, ...] = EXITS, reads: int = 0
) -> tuple[Row, ...]:
    """A thread writes every second, while the main thread waits for its end."""
    task = stack("telemetry_0", *(frames or TASK), tid=ROOT + 1, at=second)
    return (
        process(written_bytes=20 * second, read_bytes=reads * second), thread(), thread(ROOT, ROOT + 1, slices=9 * second),
        stack("main", *main), blocked("futex", ran_at=START - 60),
        msgspec.structs.replace(task, contents=((2, 1, contents),)),
        blocked("clock_nanosleep", tid=ROOT + 1, wakes_at=START + second + 0.2),
    )  # fmt: skip


def told(*rounds: tuple[Row, ...], more: tuple[Row, ...] = ()) -> Diagnosis:
    return diagnosed([snapshot(*rows, *more, at=float(second)) for second, rows in enumerate(rounds)])


def test_a_task_that_only_repeats_itself_keeps_the_program_from_its_end() -> None:
    found = told(*(writes_at_exit(77, second) for second in SECONDS))
    assert (found.verdict, found.findings[0].cause) == (Verdict.HUNG, "exit-hang")
    assert [suspect.thread for suspect in found.findings[0].suspects] == ["telemetry_0"]


def test_a_task_that_may_bring_its_work_to_an_end() -> None:
    drains = (writes_at_exit(second, second) for second in SECONDS)
    copies = (writes_at_exit(77, second, reads=4096) for second in SECONDS)
    assert told(*drains).verdict is not Verdict.HUNG
    assert told(*copies).verdict is not Verdict.HUNG
    kept = Handle(pid=ROOT, object="file:1:5", fd=5, path="/home/ada/5", reads=False)
    assert told(*(writes_at_exit(77, second) for second in SECONDS), more=(kept,)).verdict is not Verdict.HUNG


def test_a_thread_of_its_own_may_be_a_service() -> None:
    own = ("serve.py:27 beat", "lib/threading.py:982 Thread.run")
    assert told(*(writes_at_exit(77, second, *own) for second in SECONDS)).verdict is not Verdict.HUNG


def test_a_task_that_the_program_itself_waits_for() -> None:
    waits_for_it = (writes_at_exit(77, second, main=JOINS_IT) for second in SECONDS)
    assert told(*waits_for_it).verdict is not Verdict.HUNG
