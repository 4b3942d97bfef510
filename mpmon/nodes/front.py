"""The front end: one job on many nodes as one stream of observations, for all views as if it were a job on this
machine.

Each round queries every agent and waits until all present agents have answered, so that a late answer is not mistaken
for a standstill. All agents briefly report what their ranks wait in; facts come from the nodes that
`mpmon.nodes.choose` picks by these reports, which is all nodes if there are few. If the reports lead to a new pick, the
round restarts with its facts. A lost node is not in the round; the state of nodes is listed among the probes.

A late node delays the round of all until it is lost. Meanwhile the previous round is repeated each second, with only
the state of the agents updated: what the job has done since was not observed.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from itertools import islice

import msgspec

from mpmon.diagnosis.findings import Observation
from mpmon.errors import CannotTell, MpmonError
from mpmon.model import LATE, NO_JOB, ProbeReport, Snapshot
from mpmon.nodes import wire
from mpmon.nodes.choose import Picks
from mpmon.nodes.fleet import ROUND_S, Fleet
from mpmon.nodes.job_choice import chosen
from mpmon.nodes.join import Joiner, Part, Unjoinable
from mpmon.nodes.members import CONNECT_S, LATE_S, NodeState, State, any_in
from mpmon.nodes.ras import RasOfNodes
from mpmon.nodes.sentences import nobody, problem, reports
from mpmon.nodes.transports import Trouble
from mpmon.session.clock import LiveClock
from mpmon.session.nccl_ras import NcclRas
from mpmon.session.watch import Observer
from mpmon.snapshot_buffer import SnapshotBuffer
from mpmon.spans import has, spans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mpmon.alarm import Alarm
    from mpmon.nodes.transports import Carrier, Transport
    from mpmon.probes.nccl_ras import Address
    from mpmon.session.recording import Recorder

AGAIN_S = 10.0
"""An agent that has not answered by then is queried again: messages between two machines may be lost."""

LIST_S = 30.0
"""Interval between two checks for nodes added to the job."""

MOST_TOLD = 1000
"""Most nodes listed individually: those at hand and the silent ones first."""

STATES = {
    State.HERE: "fresh", State.LATE: LATE, State.ENDED: "ended", State.COMING: "unreachable", State.LOST: "unreachable",
    State.OUT: "unreachable",
}  # fmt: skip
"""The states of `mpmon.model.Node`."""


class NodesWatch:
    """A live job on many nodes, a round each `interval` seconds."""

    live = True
    is_here = False
    speed = 1.0
    length: int | None = None

    def __init__(
        self, transport: Transport, wish: wire.Watch, *, recorder: Recorder | None = None, buffer: SnapshotBuffer | None = None,
        tell: Callable[[str], None] | None = None, alarm: Alarm | None = None, ras: Address | None = None,
    ) -> None:  # fmt: skip
        """`tell` receives a sentence for each problem with a node, and one when the node is back. `ras` is the address
        of NCCL's RAS.

        Raises:
            MpmonError: the transport cannot tell which nodes there are.
        """
        self._clock = LiveClock()
        self._fleet = Fleet(transport, self._clock.now)
        self._wish = wish
        self._recorder = recorder
        self._tell = tell
        self._alarm = alarm
        self._stopped = threading.Event()
        asks = RasOfNodes(self._fleet, self._stopped)
        self._ras = NcclRas(ras, self._clock.now, asks) if ras else None
        self._joiner = Joiner()
        names = [node.name for node in self._fleet.nodes()]
        self._picks = Picks(len(names), names)
        self._transport = transport
        self._names = names
        self._asked = self._picks.asked
        """The nodes that the last query requested facts from."""
        self._number = 0
        """The number of the last query."""
        self._is_news = True
        """Whether the last joined round was new; if the job has ended, agents repeat the same round."""
        self._looked: dict[int, float] = {}
        """When the nodes of that round took their samples, by their places and their own clocks."""
        self._before: Observation | None = None
        """The observation of the last round."""
        self._late: dict[int, int] = {}
        """By place, the silence of each late node as last reported, seconds."""
        self._silent: set[str] = set()
        """The names of nodes that did not answer in the last round."""
        self._told: dict[str, str] = {}
        """The last report on each absent node, by name."""
        self.title = transport.title
        self.buffer = buffer or SnapshotBuffer(0)
        self._growing = threading.Lock()
        self._coming: list[Carrier] = []
        """Carriers for nodes that are not in the fleet yet."""

    def __iter__(self) -> Iterator[Observation]:
        observer = Observer(self._alarm, self._ras)
        with self._fleet:
            self._begin()
            if not self._wish.eager:
                threading.Thread(target=self._look_for_more, name="mpmon more nodes", daemon=True).start()
            while not self._stopped.is_set():
                began = self._clock.now()
                self._grow()
                snapshot = yield from self._round()
                if snapshot is None:
                    return
                if self._is_news:
                    yield self._observed(observer, snapshot)
                if not any_in(self._fleet.nodes(), State.COMING, State.HERE, State.LATE, State.LOST):
                    return
                self._clock.wait(began + self._wish.interval - self._clock.now())

    # Inside

    def _observed(self, observer: Observer, snapshot: Snapshot) -> Observation:
        snapshot = self._ras.add(snapshot) if self._ras else snapshot
        if self._recorder:
            self._recorder.write(snapshot)
        self._before, self._late = observer.see(snapshot), {}
        self.buffer.add(self._before)
        return self._before

    def _begin(self) -> None:
        """Wait for the agents, choose the job, have them watch it.

        Raises:
            MpmonError: no node can be watched, or several jobs run there.
        """
        self._fleet.wait(lambda nodes: self._stopped.is_set() or not any_in(nodes, State.COMING), 2 * CONNECT_S)
        nodes = self._fleet.nodes()
        if not self._stopped.is_set():
            here = [node for node in nodes if node.state in (State.HERE, State.LATE)]
            if not here:
                raise nobody(nodes)
            self._report(reports([node for node in nodes if node not in here]))
            self._fleet.watch(msgspec.structs.replace(self._wish, key=chosen(here)))

    def _look_for_more(self) -> None:
        """An elastic job may get more nodes while it is watched. In a thread of its own: the source of the list may be
        slow.
        """
        while not self._stopped.wait(LIST_S):
            try:
                carriers = self._transport.added(frozenset(self._names))
            except MpmonError:
                # If the job is over, or the source fails, its agents give better messages.
                continue
            with self._growing:
                names = [name for carrier in carriers for name in carrier.nodes]
                self._names += names
                self._coming += carriers

    def _grow(self) -> None:
        """Add new nodes between two rounds, since a place must mean the same node throughout a round."""
        with self._growing:
            carriers, self._coming = self._coming, []
        if carriers:
            self._fleet.add(carriers)
            self._picks.add([name for carrier in carriers for name in carrier.nodes])

    def _round(self) -> Generator[Observation, None, Snapshot | None]:
        """The joined reports of all nodes; `None` if there will be no more. Meanwhile yields updates about late agents.

        Raises:
            MpmonError: no node ever reported anything.
        """
        until = self._clock.now() + ROUND_S
        may_begin_again = True
        while not self._stopped.is_set():
            self._number += 1
            self._asked = self._picks.asked
            self._fleet.ask(self._number, self._asked)
            whole = yield from self._answered()
            nodes = self._fleet.nodes()
            answered = {place: node for place, node in enumerate(nodes) if self._is_fresh(place, node)}
            if answered and (whole or self._clock.now() >= until):
                is_more = self._picks.hear(
                    {at: (node.classes, node.offset_s) for at, node in answered.items()},
                    {at: node.figures for at, node in answered.items() if node.figures},
                )
                if is_more and may_begin_again:
                    may_begin_again = False
                elif joined := self._joined(nodes, answered):
                    looked = {at: node.snapshot.taken_at for at, node in answered.items() if node.snapshot}
                    is_alive = any(node.state is not State.ENDED for node in answered.values())
                    self._is_news, self._looked = is_alive or looked != self._looked, looked
                    return joined
                continue
            is_over = self._is_over(nodes, until)
            if is_over and not any(node.snapshot for node in nodes):
                raise nobody(nodes)
            if not any_in(nodes, State.HERE, State.LATE):
                self._report(reports(nodes))
            if is_over:
                return None
        return None

    def _answered(self) -> Generator[Observation, None, bool]:
        """Wait until all have answered or are no longer waited for; returns `False` if some did not in time."""
        until = self._clock.now() + AGAIN_S
        while (left := until - self._clock.now()) > 0:
            if not self._fleet.wait(
                lambda nodes: self._is_answered(nodes) or self._silences(nodes) != self._late, left
            ):
                continue
            nodes = self._fleet.nodes()
            if self._is_answered(nodes):
                return True
            self._late = self._silences(nodes)
            if self._before and not self._wish.eager:
                yield self._retold(self._before, nodes)
        return False

    def _silences(self, nodes: list[NodeState]) -> dict[int, int]:
        """Seconds of silence, by place, of the silent nodes that took part in the last round."""
        silent = (State.LATE, State.LOST)
        return {
            place: int(node.silent_s) for place, node in enumerate(nodes)
            if node.state in silent and node.silent_s >= LATE_S and node.name not in self._silent
        }  # fmt: skip

    def _retold(self, before: Observation, nodes: list[NodeState]) -> Observation:
        """The last round, with the agents' present state."""
        late = {nodes[place].name: nodes[place].silent_s for place in self._late}
        now = self._clock.now()
        rows = tuple(
            msgspec.structs.replace(row, state=LATE, heard_at=now - late[row.host])
            if row.host in late and not row.problem else row
            for row in before.snapshot.nodes
        )  # fmt: skip
        return msgspec.structs.replace(
            before, snapshot=msgspec.structs.replace(before.snapshot, nodes=rows), told_at=now
        )

    def _is_over(self, nodes: list[NodeState], until: float) -> bool:
        """Whether there will be no more reports; for a one-shot report, not soon enough."""
        if not any_in(nodes, State.HERE, State.LATE, State.LOST):
            return True
        return self._wish.eager and (not any_in(nodes, State.HERE, State.LATE) or self._clock.now() >= until)

    def _is_answered(self, nodes: list[NodeState]) -> bool:
        """Whether nothing is waited for any more."""
        if self._stopped.is_set():
            return True
        away = (State.LOST, State.OUT, State.ENDED)
        fresh = [self._is_fresh(place, node) for place, node in enumerate(nodes)]
        return any(fresh) and all(found or node.state in away for found, node in zip(fresh, nodes, strict=True))

    def _is_fresh(self, place: int, node: NodeState) -> bool:
        """Whether a node's last report is up to date and includes everything requested."""
        if has(self._asked, place) and not self._has_ended(place, node):
            return node.facts == self._number
        return node.state is State.ENDED or node.answers == self._number

    def _has_ended(self, place: int, node: NodeState) -> bool:
        """Whether a node has ended and its last facts, which stay valid, are requested."""
        return node.state is State.ENDED and node.snapshot is not None and has(self._asked, place)

    def _joined(self, nodes: list[NodeState], answered: dict[int, NodeState]) -> Snapshot | None:
        """The joined reports; `None` if no report is valid."""
        silent = [node for place, node in enumerate(nodes) if place not in answered]
        self._report(reports(silent))
        here = [place for place, node in answered.items() if node.facts == self._number or self._has_ended(place, node)]
        parts = [
            *(self._part(nodes[at], snapshot=nodes[at].snapshot) for at in here),
            *(self._part(node, problem=problem(node)) for node in silent),
        ]
        others = (node for place, node in answered.items() if place not in here)
        parts += map(self._part, islice(others, max(0, MOST_TOLD - len(parts))))
        if not here:
            return None
        try:
            joined = self._joiner.join(parts, self._picks.elsewhere(here))
        except Unjoinable as contradiction:
            self._expel(parts, str(contradiction))
            return None
        return msgspec.structs.replace(joined, probes=(*joined.probes, *self._noted(silent)))

    def _noted(self, silent: list[NodeState]) -> Iterator[ProbeReport]:
        """New problems with these nodes, and once for each problem that is over."""
        before, self._silent = self._silent, {node.name for node in silent}
        for node in silent:
            yield ProbeReport(name=node.name, ok=False, seconds=0.0, problem=problem(node, how_long=False))
        for name in sorted(before - self._silent):
            yield ProbeReport(name=name, ok=True, seconds=0.0)

    def _part(self, node: NodeState, *, snapshot: Snapshot | None = None, problem: str | None = None) -> Part:
        offset_s = node.offset_s if snapshot else 0.0
        return Part(
            host=node.name, offset_s=offset_s, snapshot=snapshot, problem=problem, commands=self._transport.commands(node.name),
            figures=None if problem else node.figures, state=_state(node), version=node.version or None,
            heard_at=self._clock.now() - node.silent_s if node.version and node.silent_s >= LATE_S else None,
            rights=node.rights,
            ranks=node.ranks,
        )  # fmt: skip

    def _expel(self, parts: list[Part], contradiction: str) -> None:
        """Drop each node whose own report is impossible.

        Raises:
            MpmonError: there is none, so it is unknown which node is wrong.
        """
        wrong: dict[str, str] = {}
        for part in parts:
            try:
                Joiner().join([part]) if part.snapshot else None
            except Unjoinable as of_one:
                wrong[part.host] = str(of_one)
        if not wrong:
            raise CannotTell(
                f"the reports of the nodes contradict each other: {contradiction}.", "Is a machine named twice?"
            )
        for name, said in wrong.items():
            self._fleet.expel(name, Trouble(f"sends impossible data: {said}"))

    def _report(self, troubles: tuple[ProbeReport, ...]) -> None:
        """Report new problems, ignoring how long they have lasted, which always changes."""
        now = {row.name: row.problem or "" for row in troubles}
        if self._tell:
            for name in sorted(now.keys() ^ self._told.keys()):
                self._tell(f"{name} {now[name]}." if name in now else f"{name} is back.")
        self._told = now

    # The source's controls

    def look_now(self) -> None:
        """Sample everything at once."""
        self._fleet.look_now()
        self._clock.wake()

    def attend(self, pid: int | None) -> None:
        """No effect here: agents refresh what stands still."""

    def enter(self, host: str) -> None:
        """Request facts from that machine from now on, whatever its ranks report."""
        found = [place for place, node in enumerate(self._fleet.nodes()) if node.name == host]
        self._picks.wanted = spans(found)
        self._clock.wake()

    def stop(self) -> None:
        """End the iteration soon."""
        self._stopped.set()
        self._clock.wake()
        self._fleet.wake()

    def pause(self, paused: bool) -> None:  # noqa: FBT001
        """A live job continues to be watched; the view holds its snapshot."""

    def step(self) -> None:
        """No effect here."""

    def go(self, number: int) -> None:
        """No effect here: past snapshots are in the buffer."""

    def find_hang(self) -> None:
        """No effect here: the future is unknown."""


def _state(node: NodeState) -> str:
    return NO_JOB if node.problem and node.problem.jobless else STATES[node.state]
