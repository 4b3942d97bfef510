"""The fleet with real agents on this machine: those that stop, die, come back, or are one machine under two names."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from mpmon import __version__
from mpmon.codec import BadRecording
from mpmon.nodes import fleet as fleets
from mpmon.nodes.fleet import Fleet
from mpmon.nodes.members import NodeState, State, read_figures
from mpmon.nodes.transports import Carrier
from mpmon.nodes.transports.local import Local
from mpmon.nodes.wire import FIGURES, Round, Watch
from mpmon.session.clock import LiveClock
from tests.live.running import Program
from tests.nodes.programs import agents, until
from tests.patience import LONGEST_S

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def job() -> Iterator[Program]:
    with Program("lock_order.py", "fork").hear("left", "right") as program:
        yield program


@pytest.fixture
def fleet(job: Program) -> Iterator[Fleet]:
    """Two nodes, of which each is one of the two children."""
    with Fleet(Local({"n1": job.pids["left"], "n2": job.pids["right"]}), LiveClock().now) as started:
        until(started, lambda nodes: all(node.state is State.HERE for node in nodes))
        started.watch(Watch(interval=0.2, stacks="never"))
        yield started


def test_all_answer(fleet: Fleet, job: Program) -> None:
    fleet.ask(7)
    nodes = until(fleet, lambda nodes: all(node.answers == 7 for node in nodes))

    seen = [{row.pid for row in node.snapshot.processes} for node in nodes if node.snapshot]
    assert seen == [{job.pids["left"]}, {job.pids["right"]}]
    assert all(abs(node.offset_s) < 1.0 for node in nodes)


def test_all_say_how_their_machine_is(fleet: Fleet) -> None:
    for number in (1, 2):
        fleet.ask(number)
        until(fleet, lambda nodes, asked=number: all(node.answers == asked for node in nodes))
    for node in fleet.nodes():
        assert node.figures
        assert node.figures.load_per_cpu is not None
        assert "gpu_power_watts" in node.figures.reasons
        assert node.version == __version__


@pytest.mark.parametrize(
    ("figures", "is_understood"),
    [((30.0, 0.5), True), ((30.0, *[1.0] * (len(FIGURES) - 1)), True), ((None, 0.5), False)],
)
def test_figures_are_what_the_model_takes_or_garbage(figures: tuple[float | None, ...], *, is_understood: bool) -> None:
    told = Round(answers=1, age_s=0.0, figures=figures)
    with contextlib.nullcontext() if is_understood else pytest.raises(BadRecording):
        assert read_figures(told, None).load_per_cpu is not None


def test_one_that_is_silent_is_late_then_lost_and_comes_back(fleet: Fleet, job: Program) -> None:
    stopped = agents()[job.pids["right"]]
    seen: list[State] = []

    def note(nodes: list[NodeState]) -> bool:
        seen.append(nodes[1].state)
        return seen[-1] is State.LOST

    stopped.send_signal(signal.SIGSTOP)
    try:
        nodes = until(fleet, note)
    finally:
        stopped.send_signal(signal.SIGCONT)

    assert list(dict.fromkeys(seen)) == [State.HERE, State.LATE, State.LOST]
    assert nodes[0].state is State.HERE
    until(fleet, lambda nodes: nodes[1].state is State.HERE)
    fleet.ask(1)
    until(fleet, lambda nodes: all(node.answers == 1 for node in nodes))


def test_one_that_dies_is_started_again(fleet: Fleet, job: Program) -> None:
    fleet.ask(1)
    until(fleet, lambda nodes: all(node.answers == 1 for node in nodes))
    agents()[job.pids["right"]].kill()

    (_, lost) = until(fleet, lambda nodes: nodes[1].state is State.LOST)
    assert lost.problem
    until(fleet, lambda nodes: nodes[1].state is State.HERE)
    fleet.ask(2)
    until(fleet, lambda nodes: all(node.answers == 2 for node in nodes))


def test_one_machine_under_two_names(job: Program) -> None:
    with Fleet(Local({"n1": job.pid, "localhost": job.pid}), LiveClock().now) as fleet:
        nodes = until(fleet, lambda nodes: not any(node.state is State.COMING for node in nodes))

    assert sorted(node.state.value for node in nodes) == ["here", "out"]
    (told,) = [node.problem.reason for node in nodes if node.problem]
    assert told.startswith("is the same machine as ")


def test_nothing_is_left(job: Program) -> None:
    with Fleet(Local({"n1": job.pid}), LiveClock().now) as fleet:
        until(fleet, lambda nodes: nodes[0].state is State.HERE)
        assert agents()

    assert agents() == {}


def interrupted(call: Callable[[], object], event: int) -> bool:
    """Call it, with Ctrl-C as a Python function in it begins or ends; whether there are so many of these events."""
    left = event

    def interrupt(_: FrameType, what: str, __: object) -> Any:
        nonlocal left
        left -= what in {"call", "return"}
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_ctrl_c_at_any_moment_leaves_no_lock_taken() -> None:
    fleet = Fleet(Local({}), LiveClock().now)
    events = next(event for event in itertools.count() if not interrupted(fleet.nodes, event))
    other = threading.Thread(target=fleet.nodes, daemon=True)
    other.start()
    other.join(LONGEST_S)

    assert events
    assert not other.is_alive()
    with fleet:
        pass


class OneStep(Local):
    """One carrier for all, as srun is."""

    def __init__(self, *names: str, complaint: str) -> None:
        super().__init__(dict.fromkeys(names, 0))
        self._step = Carrier(("/bin/sh", "-c", f"echo {shlex.quote(complaint)} >&2; cat"), names, labelled=True)

    def carriers(self) -> list[Carrier]:
        return [self._step]


@pytest.mark.parametrize(
    ("complaint", "said"),
    [
        ("1: /bin/sh: 1: exec: mpmon: not found", ["has not answered within 1 s", "has no mpmon"]),
        ("srun: error: out of luck", ["has no agent: srun: error: out of luck"] * 2),
    ],
)
def test_what_a_step_says_of_one_task_is_not_said_of_the_others(
    monkeypatch: pytest.MonkeyPatch, complaint: str, said: list[str]
) -> None:
    monkeypatch.setattr(fleets, "CONNECT_S", 1.0)
    with Fleet(OneStep("n1", "n2", complaint=complaint), LiveClock().now) as fleet:
        nodes = until(fleet, lambda nodes: all(node.problem for node in nodes))
    assert [node.problem.reason for node in nodes if node.problem] == said
