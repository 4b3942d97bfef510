"""Who died, and how: by a signal, and for memory in a control group made for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Finding, Observation
from mpmon.probes import cgroups
from mpmon.probes.files import Proc
from mpmon.session.sampler import Sampler
from mpmon.session.watch import LiveWatch
from tests.live.running import LONGEST_S, Program
from tests.patience import patience

pytestmark = pytest.mark.live

LIMIT = 1 << 26


@pytest.fixture
def small_group() -> Iterator[str]:
    """A control group that may use 64 MiB."""
    hierarchy = cgroups.hierarchy(Proc())
    if hierarchy is None or os.geteuid() != 0:
        pytest.skip("needs root and control groups")
    own = Sampler(Proc(), os.getppid(), now=lambda: 0.0, host="host").round().processes[0].cgroup or "/"
    around = hierarchy.directory(own if hierarchy.version == 1 else "/")
    folder = Path(around or "/nowhere") / f"mpmon-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if hierarchy.version == 1 else "memory.max"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(LIMIT))
    except OSError as problem:
        if folder.is_dir():
            folder.rmdir()
        pytest.skip(f"no control group can be made here: {problem}")
    yield str(folder)
    folder.rmdir()


def watch_it_die(program: Program) -> tuple[Finding, Observation]:
    """Mpmon sees the producer alive first; then it may begin."""
    watched = LiveWatch(lambda now: Sampler(Proc(), program.pid, now=now, host="host", eager=True), interval=0.5)
    last: Observation | None = None
    left = patience(LONGEST_S)
    for number, last in enumerate(watched):
        if number == 0:
            program.tell()
        if last.diagnosis.findings or next(left, None) is None:
            watched.stop()
    assert last is not None
    assert last.diagnosis.findings, last.diagnosis.because
    return last.diagnosis.findings[0], last


def test_a_producer_that_a_signal_killed() -> None:
    with Program("killed_producer.py", str(int(signal.SIGSEGV))).hear("child") as program:
        finding, _ = watch_it_die(program)
        (suspect,) = finding.suspects
        assert (finding.cause, suspect.pid, suspect.dead) == ("queue-empty", program.pids["child"], True)
        assert suspect.end
        assert suspect.end.startswith("killed by SIGSEGV (11)")
        assert any("PYTHONFAULTHANDLER" in line for line in finding.advice)


def test_a_producer_that_was_killed_for_memory(small_group: str) -> None:
    with Program("killed_producer.py", small_group).hear("child") as program:
        finding, seen = watch_it_die(program)
        (suspect,) = finding.suspects
        assert (suspect.pid, suspect.end) == (
            program.pids["child"],
            "killed by SIGKILL (9), by the out-of-memory killer",
        )
        assert any("grew to 1 while mpmon watched" in line for line in finding.evidence)
        assert any("num_workers" in line for line in finding.advice)
        group = next(row for row in seen.snapshot.cgroups if small_group.endswith(row.path))
        assert (group.oom_kills, group.limit_bytes) == (1, LIMIT)
