"""Nodes that are not up when the watch begins, have no part of the job, or fall silent: they join it by themselves."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Observation
from mpmon.model import LATE
from mpmon.nodes import fleet as fleets
from mpmon.nodes import front
from mpmon.nodes.fleet import Fleet
from mpmon.nodes.front import NodesWatch
from mpmon.nodes.members import LATE_S, NodeState, State
from mpmon.nodes.transports import Carrier, Trouble
from mpmon.nodes.transports.local import Local
from mpmon.nodes.transports.ssh import Ssh
from mpmon.nodes.wire import Watch
from mpmon.session.clock import LiveClock
from mpmon.tui.scene import Scene
from tests.live.running import Program
from tests.nodes.programs import agents, until
from tests.patience import patience

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def job() -> Iterator[Program]:
    with Program("lock_order.py", "fork").hear("left", "right") as program:
        yield program


class Unready(Local):
    """The last node complains as ssh does, until a file is there; then its agent comes."""

    def __init__(self, roots: dict[str, int], ready: Path, complaint: str) -> None:
        super().__init__(roots)
        self._ready = ready
        self._complaint = complaint

    def carriers(self) -> list[Carrier]:
        *others, last = super().carriers()
        refused = f"echo {shlex.quote(self._complaint)} >&2; exit 255"
        script = f"test -e {shlex.quote(str(self._ready))} || {{ {refused}; }}; exec {shlex.join(last.words)}"
        return [*others, Carrier(("/bin/sh", "-c", script), last.nodes)]

    def trouble(self, node: str, said: str) -> Trouble | None:
        return Ssh(node).trouble(node, said)


REFUSED = "ssh: connect to host n2 port 22: Connection refused"


def test_a_node_that_comes_up_joins_the_watch(job: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "AGAIN_S", (0.1,))
    ready, told = tmp_path / "up", list[str]()
    roots = {"n1": job.pids["left"], "n2": job.pids["right"]}
    watch = NodesWatch(Unready(roots, ready, REFUSED), Watch(interval=0.2, stacks="never"), tell=told.append)
    seen: list[set[str]] = []
    for observation in watch:
        seen.append({row.host for row in observation.snapshot.processes if row.host})
        ready.touch()
        if "n2" in seen[-1]:
            watch.stop()

    assert (seen[0], seen[-1]) == ({"n1"}, {"n1", "n2"})
    assert told[0] == "n2 runs no ssh server."
    assert told[-1] == "n2 is back."


class Elastic(Local):
    """The job gets a second node as soon as somebody asks."""

    def __init__(self, first: dict[str, int], then: dict[str, int]) -> None:
        super().__init__(first)
        self._then = then

    def added(self, known: Collection[str]) -> list[Carrier]:
        self._roots.update(self._then if known else {})
        return super().added(known)


def test_a_node_that_is_added_to_the_job_is_picked_up(job: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "LIST_S", 0.1)
    transport = Elastic({"n1": job.pids["left"]}, {"n2": job.pids["right"]})
    watch = NodesWatch(transport, Watch(interval=0.2, stacks="never"))
    seen: list[set[str]] = []
    for observation in watch:
        seen.append({row.host for row in observation.snapshot.processes if row.host})
        if "n2" in seen[-1]:
            watch.stop()

    assert (seen[0], seen[-1]) == ({"n1"}, {"n1", "n2"})


def test_an_added_node_that_refuses_us_is_told_and_keeps_nobody(
    job: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "AGAIN_S", (0.0,))
    refusing = Unready({"n2": job.pids["right"]}, tmp_path / "never", "n2: Permission denied (publickey).")
    with Fleet(Ssh("n1"), LiveClock().now) as fleet:
        fleet.add(refusing.carriers())
        (_, added) = until(fleet, lambda nodes: nodes[1].problem is not fleets.NEW)

    assert (added.state, added.problem and added.problem.reason) == (State.OUT, "does not let you in")


def answered(fleet: Fleet, number: int) -> list[NodeState]:
    fleet.ask(number)
    return until(fleet, lambda nodes: nodes[0].answers == number)


@pytest.mark.parametrize(
    ("complaint", "is_tried"),
    [(REFUSED, True), ("n2: Permission denied (publickey).", False), ("Host key verification failed.", False)],
)
def test_a_node_that_refused_us_is_not_tried_again(
    job: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, *, is_tried: bool
) -> None:
    monkeypatch.setattr(fleets, "AGAIN_S", (0.0,))
    ready, starts = tmp_path / "up", tmp_path / "starts"
    roots = {"n1": job.pids["left"], "n2": job.pids["right"]}
    transport = Unready(roots, ready, complaint)
    carriers = transport.carriers()
    counted = f"echo >> {shlex.quote(str(starts))}; {carriers[1].words[2]}"
    monkeypatch.setattr(
        transport, "carriers", lambda: [carriers[0], Carrier(("/bin/sh", "-c", counted), carriers[1].nodes)]
    )
    with Fleet(transport, LiveClock().now) as fleet:
        until(fleet, lambda nodes: [node.state for node in nodes] == [State.HERE, State.OUT])
        fleet.watch(Watch(interval=0.2, stacks="never"))
        rounds = iter(range(1, 1000))
        if is_tried:
            until(fleet, lambda _: starts.read_text().count("\n") > 2)
        else:
            # The thread that starts carriers has gone round more than once when a node has answered.
            for _ in range(3):
                answered(fleet, next(rounds))
            assert starts.read_text().count("\n") == 1


def test_a_node_where_the_job_has_not_begun_is_asked_again(
    job: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "AGAIN_S", (0.0,))
    starts = tmp_path / "starts"
    transport = Local({"n1": job.pid})
    words = shlex.join(transport.carriers()[0].words)
    counted = Carrier(("/bin/sh", "-c", f"echo >> {shlex.quote(str(starts))}; exec {words}"), ("n1",))
    monkeypatch.setattr(transport, "carriers", lambda: [counted])
    with Fleet(transport, LiveClock().now) as fleet:
        until(fleet, lambda nodes: nodes[0].state is State.HERE)
        fleet.watch(Watch(interval=0.2, stacks="never", key="a job that begins later"))
        (node,) = until(fleet, lambda nodes: nodes[0].state is State.OUT)
        assert node.problem
        assert node.problem.reason == "no process of the job runs there"
        until(fleet, lambda _: starts.read_text().count("\n") > 2)


def test_a_node_that_falls_silent_is_told_as_late_before_it_is_missed_and_comes_back(job: Program) -> None:
    roots = {"n1": job.pids["left"], "n2": job.pids["right"]}
    watch = NodesWatch(Local(roots), Watch(interval=0.2, stacks="never"))
    states: list[str | None] = []
    late: list[Observation] = []
    before = None
    for observation, _ in zip(watch, patience(), strict=False):
        (state,) = [row.state for row in observation.snapshot.nodes if row.host == "n2"]
        states += [state] if states[-1:] != [state] else []
        stopped = agents()[job.pids["right"]]
        if state == "late":
            late.append(observation)
            assert before
            assert observation.diagnosis is before.diagnosis
            assert observation.snapshot.processes is before.snapshot.processes
        elif states == ["fresh"]:
            before = observation
            stopped.send_signal(signal.SIGSTOP)
        elif state == "unreachable":
            stopped.send_signal(signal.SIGCONT)
        elif states == ["fresh", "late", "unreachable", "fresh"]:
            watch.stop()

    assert states == ["fresh", "late", "unreachable", "fresh"]
    assert len(late) > 1, "it is told for how long"
    silent = [Scene(row).silent_s(node) for row in late for node in row.snapshot.nodes if node.state == LATE]
    assert silent == sorted(silent)
    assert min(each or 0.0 for each in silent) >= LATE_S
    complaints = [event.kind for event in observation.events if event.summary.startswith("n2: ")]
    assert complaints in ([], ["probe-failed", "probe-works"])
