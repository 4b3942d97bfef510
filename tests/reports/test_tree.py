"""The processes of a job in the report."""

from __future__ import annotations

import sys

import pytest
from msgspec import structs

from mpmon.diagnosis.findings import Verdict
from mpmon.model import Process
from mpmon.reports import text
from mpmon.session.watch import Observer
from tests.builders import ROOT, process, snapshot, stack


def test_a_chain_of_processes_longer_than_python_recurses() -> None:
    count = sys.getrecursionlimit() + 100
    chain = [process(ROOT + at, parent=ROOT + at - 1, cmdline=("sh",)) for at in range(1, count)]
    job = snapshot(process(), stack("main", "job.py:3 main"), *chain)
    said = text.render(Observer().see(job)).splitlines()
    (last,) = [line for line in said if f" {ROOT + count - 1} " in line]
    assert last.startswith(f"       {ROOT + count - 1} S  {'  ' * text.MOST_DEPTH}subprocess")
    assert len([line for line in said if "subprocess" in line]) == count - 1


@pytest.mark.parametrize(
    ("root", "more"), [(process(), True), (process(state="Z", threads=1), False), (None, False)],
    ids=["lives", "nobody has collected it", "gone"],
)  # fmt: skip
def test_longer_is_advised_only_while_there_is_something_to_observe(root: Process | None, *, more: bool) -> None:
    job = structs.replace(snapshot(process()), processes=() if root is None else (root,))
    observation = Observer().see(job)
    assert observation.diagnosis.verdict is Verdict.UNKNOWN
    *_, last = text.render(observation).splitlines()
    assert last.endswith("(--for SECONDS observes longer)") == more
