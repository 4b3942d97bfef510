"""Waiting for whatever child there is, while only a helper of multiprocessing is left."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import Row
from tests.builders import ROOT, START, blocked, diagnosed, kernel_object, process, snapshot, stack, thread

TRACKER, SERVES = 4110, 4101
Rows = tuple[Row, ...]


def said(*more: Row, waits_for: str = "process:any", **root: object) -> Diagnosis:
    return diagnosed([
        snapshot(
            process(**root), thread(), stack("main", "job.py:70 reap"), blocked("wait4", waits_for, ran_at=START),
            kernel_object(waits_for), process(TRACKER, parent=ROOT, cmdline=(
                "python", "-c", "from multiprocessing.resource_tracker import main;main(5)")),
            thread(TRACKER), blocked("read", "pipe:7", pid=TRACKER, ran_at=START), *more, at=float(second),
        )
        for second in range(12)
    ])  # fmt: skip


def test_the_helper_ends_with_the_one_that_waits() -> None:
    (finding,) = said().findings
    assert (finding.cause, [row.pid for row in finding.suspects]) == ("self-deadlock", [ROOT])


STARTS: Rows = (
    thread(ROOT, SERVES), blocked("poll", tid=SERVES, ran_at=START),
    stack("serves", "lib/selectors.py:415 select", "lib/socketserver.py:233 serve_forever", "job.py:9 serve", tid=SERVES),
)  # fmt: skip


@pytest.mark.parametrize(
    ("more", "root"),
    [(STARTS, {}), ((), {"catches_term": True}), ((), {"catches_call": True})],
    ids=["a-thread", "a-handler", "another-handler"],
)
def test_somebody_may_yet_start_a_child(more: Rows, root: dict[str, object]) -> None:
    assert said(*more, **root).verdict is not Verdict.HUNG


def test_who_waits_for_the_helper_itself_has_told_it_to_end() -> None:
    assert all(row.cause != "self-deadlock" for row in said(waits_for=f"process:{TRACKER}").findings)
