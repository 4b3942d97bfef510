"""The nodes of a fleet and the processes that carry their agents, as far as these have reported."""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import NamedTuple

import msgspec

from mpmon.codec import BadRecording, decode_round
from mpmon.model import Figures
from mpmon.nodes import wire
from mpmon.nodes.transports import Carrier, Trouble
from mpmon.spans import union

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

    from mpmon.model import Snapshot
    from mpmon.nodes.digest import Digest
    from mpmon.spans import Spans

LATE_S = 3.0
"""An agent beats once a second; after this long without a beat it is late."""

LOST_S = 10.0
"""After this long without a beat it is no longer waited for; it may come back."""

CONNECT_S = 20.0
"""Time limit for a carrier until its agent's first message: logging in, and an interpreter on a slow file system."""

MOST_SAID = 4096
"""Bytes of error output kept per carrier, the last ones."""

LABEL = re.compile(rb"\s*(\d{1,6}): ?")
"""What a carrier of several tasks puts before each line of one: the number of the task."""


class State(Enum):
    """The state of a node."""

    COMING = "coming"
    """Its agent has sent nothing yet."""
    HERE = "here"
    LATE = "late"
    """Nothing was received for `LATE_S`."""
    LOST = "lost"
    """It has no agent now, or nothing was received for `LOST_S`; it may come back."""
    ENDED = "ended"
    """The job has ended there; its last round stays valid."""
    OUT = "out"
    """It is not waited for: no mpmon, another version, garbage. A node that was not up, or had no part of the job yet,
    is retried, as it may still come.
    """


class NodeState(NamedTuple):
    """What is known of one node."""

    name: str
    state: State
    silent_s: float
    """Seconds since the last message; without any, since the start."""
    offset_s: float
    """How far its clock is ahead."""
    snapshot: Snapshot | None
    answers: int
    """The last query that it answers."""
    facts: int
    """The query that `snapshot` answers."""
    classes: Digest
    """What its ranks wait in."""
    problem: Trouble | None
    """Why it is lost or out."""
    jobs: tuple[wire.JobHere, ...]
    version: str = ""
    """The version of mpmon there; empty until it is known."""
    figures: Figures | None = None
    """The machine's figures."""
    rights: str | None = None
    """As in `mpmon.model.Node`."""
    ras: wire.RasAnswer | None = None
    """The last answer of NCCL's RAS there."""

    @property
    def ranks(self) -> Spans:
        """The ranks that run there, as its agent says."""
        return union(*(row.ranks for row in self.classes if row.kind.is_rank))


def any_in(nodes: list[NodeState], *states: State) -> bool:
    """One of these nodes is in one of these states."""
    return any(node.state in states for node in nodes)


class Node:
    """One node, as far as its agent has reported."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard_at = math.inf
        """When its last message arrived, or its carrier was started."""
        self.snapshot: Snapshot | None = None
        self.classes: Digest = ()
        self.answers = self.facts = 0
        self.problem: Trouble | None = None
        self.state = State.COMING
        self.awaited = False
        """It is out, but its carrier is retried."""
        self.jobs: tuple[wire.JobHere, ...] = ()
        self.machine = self.address = self.version = ""
        self.figures: Figures | None = None
        self.rights: str | None = None
        self.ras: wire.RasAnswer | None = None
        self.begin()

    def begin(self) -> None:
        """Reset for a new agent."""
        self.lines = wire.Lines()
        self.unpacker = wire.Unpacker[wire.FromAgent](wire.FromAgent)
        self.clocks = wire.Clocks()
        self.got = self.messages = 0
        self.follows = 0
        """The answer of this agent whose tables its next answer may omit; 0 for none."""
        self.wants_whole = False
        """An answer was lost on the way, and later answers do not repeat its content."""

    def reports_on(self) -> list[tuple[str, int]]:
        """Agents that share one of these report the very same processes."""
        return [(self.machine, job.root) for job in self.jobs] if self.machine else []

    def see(self, told: wire.Round) -> None:
        """Take in what its agent reports.

        Raises:
            BadRecording: it is invalid.
        """
        if told.follows and told.follows != self.follows:
            self.wants_whole = True
            return
        if bytes(told.snapshot) != bytes(wire.NOTHING):
            self.snapshot = decode_round(bytes(told.snapshot), self.snapshot if told.follows else None)
            self.facts = told.answers
        if told.classes is not None:
            self.classes = told.classes
        if told.figures:
            self.figures = read_figures(told, self.figures)
        if told.rights is not None:
            self.rights = told.rights
        self.answers = self.follows = told.answers
        self.wants_whole = False
        if told.last:
            self.state = State.ENDED

    def row(self, now: float) -> NodeState:
        """What is known of it now."""
        silent = max(0.0, now - self.heard_at)
        state = self.state
        if state is State.HERE and silent >= LATE_S:
            state = State.LOST if silent >= LOST_S else State.LATE
        if state is State.COMING and silent >= CONNECT_S:
            state = State.LOST
        return NodeState(
            self.name, state, silent, self.clocks.offset_s or 0.0, self.snapshot, self.answers, self.facts, self.classes,
            self.problem, self.jobs, self.version, self.figures, self.rights, self.ras,
        )  # fmt: skip


class Running:
    """A carrier and its process."""

    def __init__(self, carrier: Carrier, nodes: list[Node]) -> None:
        self.carrier = carrier
        self.nodes = nodes
        self.process: subprocess.Popen[bytes] | None = None
        self.due_at = 0.0
        self.started_at = 0.0
        self.failures = 0
        self.spoke = False
        """An agent has said hello through this process."""
        self.said = b""
        self.labels = wire.Lines()
        self.unsent = bytearray()

    @property
    def live(self) -> bool:
        """Whether an agent of one of its nodes may still send something."""
        return any(node.state in (State.COMING, State.HERE, State.LOST) for node in self.nodes)

    @property
    def due(self) -> bool:
        """Whether it is to be restarted once it has ended."""
        return self.live or any(node.awaited for node in self.nodes)

    def says(self, output: bytes) -> None:
        """Keep the end of its error output."""
        self.said = (self.said + output)[-MOST_SAID:]

    def of_label(self, label: int) -> Node | None:
        """The node of a task."""
        return self.nodes[label] if label < len(self.nodes) else None

    def said_of(self, node: Node) -> str:
        """Its error output about this node, else about all of its nodes; never about other nodes."""
        if not self.carrier.labelled:
            return self.said.decode("utf-8", "replace")
        return self.said_only_of(node) or "\n".join(_of_label(self.said, None))

    def said_only_of(self, node: Node) -> str:
        """The same, of lines that bear the node's label."""
        return "\n".join(_of_label(self.said, self.nodes.index(node)))


def _of_label(said: bytes, label: int | None) -> list[str]:
    """The complete lines about one task, or about no particular one."""
    found = ((line, LABEL.match(line)) for line in said.split(b"\n")[:-1])
    return [line.decode("utf-8", "replace") for line, at in found if (int(at[1]) if at else None) == label]


def read_figures(told: wire.Round, before: Figures | None) -> Figures:
    """A round's figures, with the reasons that were left out.

    Raises:
        BadRecording: a figure is invalid.
    """
    reasons = before.reasons if before else {}
    if told.reasons is not None:
        reasons = {name: why[: wire.LONGEST_REMARK] for name, why in told.reasons.items() if name in wire.FIGURES}
    values = dict(zip(wire.FIGURES, told.figures, strict=False))
    try:
        return msgspec.convert({**values, "reasons": reasons}, Figures)
    except msgspec.MsgspecError as problem:
        raise BadRecording(str(problem)) from problem
