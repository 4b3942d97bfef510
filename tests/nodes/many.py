"""Thousands of machines without one: recorded machines that take themselves for others, and a fleet that is told what their
agents would say, in the frames in which they would.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable

import msgspec

from mpmon import __version__
from mpmon.codec import encode_round
from mpmon.diagnosis.state.history import History
from mpmon.model import Process, Snapshot
from mpmon.nodes import wire
from mpmon.nodes.agent import ras_answer
from mpmon.nodes.digest import Digest, digest
from mpmon.nodes.fleet import Fleet
from mpmon.nodes.members import NodeState
from mpmon.nodes.transports import Carrier
from mpmon.session.recording import read_recording
from mpmon.spans import Spans
from tests.nodes.recorded import HOSTS, recordings

ON_A_NODE = 2
"""Ranks of each machine of the recorded jobs."""


@functools.cache
def machine(case: str, host: str) -> list[Snapshot]:
    return list(read_recording(recordings(case)[HOSTS.index(host)]))


def seen(rounds: Iterable[Snapshot]) -> History:
    found = History()
    for each in rounds:
        found = found.add(each)
    return found


def as_node(snapshot: Snapshot, node: int, nodes: int) -> Snapshot:
    """The facts of a recorded machine as those of another one of a larger job."""

    def other(row: Process) -> Process:
        kept = row.environment
        if not kept or "RANK" not in kept:
            return row
        rank = node * ON_A_NODE + int(kept["RANK"]) % ON_A_NODE
        told = {"RANK": str(rank), "WORLD_SIZE": str(nodes * ON_A_NODE), "GROUP_RANK": str(node)}
        return msgspec.structs.replace(row, environment={**kept, **told})

    awaited = tuple(msgspec.structs.replace(row, members=()) for row in snapshot.awaited)
    objects = tuple(row for row in snapshot.objects if not (row.path or "").startswith("tcp"))
    return msgspec.structs.replace(
        snapshot, host=f"n{node}", processes=tuple(map(other, snapshot.processes)), awaited=awaited, objects=objects
    )


def moved(of: Digest, node: int) -> Digest:
    """The digest of a recorded machine as that of another one."""
    base = min(row.first[0] for row in of) // ON_A_NODE * ON_A_NODE

    def spans_at(ranks: Spans) -> Spans:
        return tuple((first - base + node * ON_A_NODE, last - base + node * ON_A_NODE) for first, last in ranks)

    return tuple(
        msgspec.structs.replace(row, ranks=spans_at(row.ranks), nodes=((node, node),),
                                first=(row.first[0] - base + node * ON_A_NODE, node))
        for row in of
    )  # fmt: skip


@functools.cache
def digests(case: str, host: str) -> list[Digest]:
    """What it says after each of its rounds."""
    rounds = [as_node(each, HOSTS.index(host), 3) for each in machine(case, host)]
    return [digest(seen(rounds[: at + 1]), 0) for at in range(len(rounds))]


class Names:
    """A transport that brings nothing."""

    title = "nobody"
    at_once = 0

    def __init__(self, nodes: int) -> None:
        self._names = tuple(f"n{number}" for number in range(nodes))

    def carriers(self) -> list[Carrier]:
        return [Carrier(("false",), self._names)]

    def added(self, known: Collection[str]) -> list[Carrier]:
        del known
        return []

    def trouble(self, node: str, said: str) -> None:
        del node, said

    def commands(self, node: str) -> tuple[str, ...]:
        return (f"ssh {node}",)


class Simulated(Fleet):
    """Agents that answer at once, all like `h1` of a recorded job, but for one which is like `h2`. After the last recorded
    round nothing moves any more.
    """

    case = ""
    culprit = 0

    def __init__(self, transport: Names, now: Callable[[], float]) -> None:
        del now
        super().__init__(
            transport, lambda: 0.0
        )  # nobody who answers at once is ever silent, however busy the machine is
        self.bytes: list[int] = []
        """That came as answers to each question."""
        self.asked: list[int] = []
        """How many were asked for facts by each."""
        self._questions = 0
        self._told: dict[str, Digest] = {}
        self._sent: dict[str, Snapshot] = {}
        self._made: Counter[str] = Counter()

    def __enter__(self) -> Fleet:
        for node in self._nodes:
            job = wire.JobHere(root=7, key="a job")
            self._heard(node, wire.Hello(version=__version__, host=node.name, address=node.name, jobs=(job,)))
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._end()

    def wait(self, enough: Callable[[list[NodeState]], bool], seconds: float) -> bool:
        del seconds
        return enough(self.nodes())

    def _heard(self, node, message: wire.Said) -> int:
        frames = self._packed(node, message)
        self._read(self._running[0], node, len(frames), node.lines.feed(frames))
        return len(frames)

    def _packed(self, node, message: wire.Said) -> bytes:
        """What goes over the wire."""
        self._made[node.name] += 1
        return b"".join(wire.frames(self._made[node.name], message))

    def _tell(self, message: wire.Said) -> None:
        super()._tell(message)
        if isinstance(message, wire.AskRas):
            (asked,) = (node for node in self._nodes if node.address == message.agent)
            self._heard(asked, ras_answer(message))
        if isinstance(message, wire.Ask):
            self._questions += 1
            asked = None if message.facts is None else frozenset(message.facts)
            self.asked.append(len(self._nodes) if asked is None else len(asked))
            self.bytes.append(
                sum(
                    self._heard(node, self._answer(place, message, is_asked=asked is None or node.address in asked))
                    for place, node in enumerate(self._nodes)
                )
            )

    def _answer(self, place: int, question: wire.Ask, *, is_asked: bool) -> wire.Round:
        name, host = f"n{place}", "h2" if place == self.culprit else "h1"
        rounds = machine(self.case, host)
        at = min(self._questions, len(rounds)) - 1
        later_s = float(max(0, self._questions - len(rounds)))
        classes = moved(digests(self.case, host)[at], place)
        is_same, self._told[name] = self._told.get(name) == classes, classes
        facts = wire.NOTHING
        if is_asked:
            snapshot = as_node(rounds[at], place, len(self._nodes))
            snapshot = msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + later_s)
            facts = msgspec.Raw(encode_round(snapshot, self._sent.get(name)))
            self._sent[name] = snapshot
        return wire.Round(
            answers=question.number, follows=question.number - 1, age_s=0.0, classes=None if is_same else classes,
            snapshot=facts,
        )  # fmt: skip
