"""The same hangs under every interpreter of the machine and every way to start a process.

All jobs of one interpreter hang at the same time, each watched by an mpmon of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from mpmon.diagnosis.findings import Finding, Observation, Suspect, Verdict
from tests.live.interpreters import VERSIONS, interpreters
from tests.live.running import Program, watch

pytestmark = pytest.mark.live

METHODS = ("fork", "spawn", "forkserver")


@dataclass(frozen=True)
class Hang:
    """A program and what is true of it."""

    file: str
    says: tuple[str, ...]
    """What it says when its processes are where they stay."""
    cause: str
    culprits: Callable[[Program], set[tuple[int, int]]]
    """Pid and line of those who must move first."""


HANGS = (
    Hang("queue_producer.py", ("child",), "worker-stuck", lambda run: {(run.pids["child"], run.line())}),
    Hang(
        "lock_order.py", ("left", "right"), "lock-cycle",
        lambda run: {(run.pids[side], run.line(f"# STUCK {side}")) for side in ("left", "right")},
    ),
    Hang("queue_joined.py", ("child",), "queue-join", lambda run: {(run.pid, run.line())}),
)  # fmt: skip

Result = TypeVar("Result")

Seen = dict[tuple[str, str], tuple[Observation, Program]]


@pytest.fixture(scope="module", params=VERSIONS)
def seen(request: pytest.FixtureRequest) -> Iterator[Seen]:
    """What mpmon says about every hang under one interpreter, by program and start method."""
    python = interpreters().get(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} on the path, under pyenv or under uv")
    running: dict[tuple[str, str], Program] = {}
    try:
        for hang, method in itertools.product(HANGS, METHODS):
            running[hang.file, method] = Program(hang.file, method, python=python)
        for hang, method in itertools.product(HANGS, METHODS):
            running[hang.file, method].hear(*hang.says)
        observations = at_once(lambda program: watch(program.pid), running.values())
        yield {key: (said, running[key]) for key, said in zip(running, observations, strict=True)}
    finally:
        at_once(Program.__exit__, running.values())


def at_once(do: Callable[[Program], Result], programs: Collection[Program]) -> list[Result]:
    """Do it with all of them, a thread each: one waits for seconds, all do not wait longer."""
    with ThreadPoolExecutor(max(1, len(programs))) as pool:
        return list(pool.map(do, programs))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("hang", HANGS, ids=lambda hang: hang.file.removesuffix(".py"))
def test_the_same_hang(seen: Seen, hang: Hang, method: str) -> None:
    observation, program = seen[hang.file, method]
    finding = hung(observation)
    assert finding.cause == hang.cause, finding.summary
    assert {place(suspect, program) for suspect in finding.suspects} == hang.culprits(program), finding.summary
    assert any("mpmon and py-spy read the same calls" in line for line in finding.evidence), finding.evidence


def hung(seen: Observation) -> Finding:
    assert seen.diagnosis.verdict is Verdict.HUNG, seen.diagnosis.because
    return seen.diagnosis.findings[0]


def place(suspect: Suspect, program: Program) -> tuple[int, int]:
    """Where a suspect stands, in lines of the program."""
    assert suspect.frame is not None
    assert Path(suspect.frame.file) == program.file
    return suspect.pid, suspect.frame.line
