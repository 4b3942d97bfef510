"""Whose tasks are read, and when again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mpmon.model import Task, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.interpreter import tasks as module
from mpmon.probes.interpreter.tasks import Reading
from mpmon.session.loops import NO_TIME, ask_loops
from tests.builders import ROOT, START, blocked, stack

LOOP = "/usr/lib/python3.12/asyncio/base_events.py:1910 _run_once"
ROW = Task(pid=ROOT, tid=ROOT, object=f"task:{ROOT}:0x10")


class Asked:
    """One process whose main thread has run at a moment, and the loops that are asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, frame: str = LOOP) -> None:
        self.calls: list[frozenset[int]] = []
        self.found = Reading((ROW,))
        self.look: Any = SimpleNamespace(
            pid=ROOT, stacks=(stack("main", frame),), blocked=(), tasks=(), tasks_problem=None, loops_ran={}
        )
        monkeypatch.setattr(module, "read_tasks", self._read)

    def _read(self, _proc: object, _pid: int, loops: frozenset[int]) -> Reading:
        self.calls.append(loops)
        return self.found

    def round(self, ran_at: float | None, *, until: float = START + 100) -> int:
        """How often it is asked in a round before which the thread last ran at that moment."""
        self.look.blocked = (blocked("epoll_wait", ran_at=ran_at),)
        before = len(self.calls)
        ask_loops(Proc(), {ROOT: self.look}, [ROOT], lambda: START, until)
        return len(self.calls) - before


def test_a_loop_is_asked_again_once_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Asked(monkeypatch)
    assert [job.round(at) for at in (START, START, START + 1)] == [1, 0, 1]
    assert job.calls == [frozenset({ROOT})] * 2
    assert job.look.tasks == (ROW,)


def test_where_nobody_tells_when_it_ran_it_is_always_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Asked(monkeypatch)
    assert [job.round(None), job.round(None)] == [1, 1]


def test_what_could_not_be_read_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Asked(monkeypatch)
    job.found = Reading(unknown=Unknown(table="tasks", pid=ROOT, reason="torn"))
    assert [job.round(START), job.round(START)] == [1, 1]
    assert job.look.tasks_problem is not None


def test_other_threads_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Asked(monkeypatch, "job.py:3 main")
    job.look.tasks = (ROW,)
    assert job.round(START) == 0
    assert job.look.tasks == ()


def test_without_time_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Asked(monkeypatch)
    assert job.round(START, until=START - 1) == 0
    assert job.look.tasks_problem.reason == NO_TIME
