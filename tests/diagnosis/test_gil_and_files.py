"""A lock of a file that is asked for with the GIL, while a thread of the same process has it."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Finding, Verdict
from mpmon.model import Row
from tests.builders import (
    ROOT,
    START,
    after,
    blocked,
    diagnosed,
    kernel_object,
    process,
    running,
    snapshot,
    stack,
    thread,
    watched,
)

INDEXER, OTHER, FILE = ROOT + 1, 4121, "file:00:5:9"
AFTER_S = 12.0


def flocks(*, owns_gil: bool = True, holders: tuple[int, ...] = (ROOT,), starves: bool = True) -> tuple[Row, ...]:
    """The main thread is in a native flock(); another thread of the process asks for the GIL."""
    asks = {"wakes_at": START + AFTER_S + 0.005} if starves else {}
    return (
        process(), thread(), msgspec.structs.replace(stack("main", "job.py:20 append"), owns_gil=owns_gil),
        blocked("flock", FILE, ran_at=0.0), kernel_object(FILE, path="rows.csv", holders=holders),
        thread(ROOT, INDEXER), stack("indexer", "job.py:31 index", tid=INDEXER),
        blocked("futex", f"futex:{ROOT}:0x70", tid=INDEXER, ran_at=0.0, **asks),
    )  # fmt: skip


def finding(*rows: Row) -> Finding | None:
    found = watched(snapshot(*rows), seconds=int(AFTER_S))
    return found.findings[0] if found.verdict is Verdict.HUNG else None


def test_the_lock_can_only_be_given_back_with_the_gil() -> None:
    found = finding(*flocks())
    assert found
    assert (found.cause, [suspect.thread for suspect in found.suspects]) == ("gil-held", ["MainThread"])
    assert any("itself holds the lock" in line for line in found.evidence)


@pytest.mark.parametrize("facts", [{"owns_gil": False}, {"starves": False}])
def test_without_the_gil_the_other_thread_may_give_it_back(facts: dict[str, bool]) -> None:
    found = finding(*flocks(**facts))  # type: ignore[arg-type]
    assert not found or found.cause != "gil-held"


def test_the_last_look_at_the_other_thread_may_fall_between_two_waits_for_the_gil() -> None:
    waits = [*flocks()]
    waits[-1] = msgspec.structs.replace(waits[-1], wakes_at=START + 0.005)
    rounds = [snapshot(*waits)]
    for _ in range(int(AFTER_S)):
        rounds.append(after(rounds[-1], 1.0))
    rows = (rounds[-1].blocked[0], running(tid=INDEXER))
    rounds.append(msgspec.structs.replace(after(rounds[-1], 1.0), blocked=rows))
    assert [finding.cause for finding in diagnosed(rounds).findings] == ["gil-held"]
