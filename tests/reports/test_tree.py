"""The processes of a job in the report."""

from __future__ import annotations

import sys

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
