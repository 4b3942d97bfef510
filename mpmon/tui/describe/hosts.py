"""The machines of a job in words: those who must act first, those that are not seen, those at hand, the rest."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from mpmon.diagnosis.words import age, ranges, several
from mpmon.tui import format as fmt
from mpmon.tui.line import BLANK, Line, plain, wrap
from mpmon.tui.tables.host_rows import Seen, agent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.model import Elsewhere, Figures, Node
    from mpmon.tui.scene import Scene

MOST = 200
"""Machines of which each is told."""

CLOCK_S = 0.01
"""A clock that is ahead by less is right."""

FIGURES = (
    ("load_per_cpu", "load {:.2f} per CPU"), ("steal_percent", "{:.1f} % of CPU time stolen"),
    ("throttled_percent", "CPU quota runs out in {:.0f} % of periods"), ("memory_stall_percent", "waits for memory {:.1f} %"),
    ("gpu_utilization_percent", "GPUs busy {:.0f} %"), ("gpu_clock_percent", "slowest GPU clock {:.0f} %"),
    ("gpu_power_watts", "GPUs {:.0f} W each"), ("gpus_slowed", "{:.0f} GPUs slowed down"),
    ("nic_errors_per_s", "network {:.1f} errors/s"), ("nic_drops_per_s", "{:.1f} drops/s"),
    ("retransmit_percent", "{:.2f} % of TCP retransmitted"),
)  # fmt: skip
"""In the order in which they are told."""


def hosts(scene: Scene, width: int) -> list[Line]:
    """A paragraph for each machine whose facts are at hand or which is silent, then classes of the others."""
    if not scene.hosts:
        return wrap("this job is watched on one machine", width, style="dim")
    about = _About(scene)
    nodes = [node for node in sorted(scene.snapshot.nodes, key=about.seen.place) if node.taken_at or node.problem]
    lines = [line for node in nodes[:MOST] for line in about.lines(node, width)]
    if len(nodes) > MOST:
        lines.append(plain(f"and {len(nodes) - MOST} more", "dim"))
    for row in scene.snapshot.elsewhere:
        lines += [*_elsewhere(scene, row, width), BLANK]
    return lines[:-1] if lines and lines[-1] == BLANK else lines


def in_full(scene: Scene, host: str, width: int) -> list[Line]:
    """The paragraph of one machine, without its name."""
    node = next((node for node in scene.snapshot.nodes if node.host == host), None)
    if node is None:
        return wrap("this job is watched on one machine", width, style="dim")
    return list(_About(scene).lines(node, width))[1:-1]


def unseen(scene: Scene) -> str:
    """What of the job nobody could look at: `not seen: n3 (does not answer) and 2 more`; empty where all was."""
    silent = [node for node in scene.snapshot.nodes if node.problem]
    if not silent:
        return ""
    first, more = silent[0], f" and {len(silent) - 1} more (H)" if len(silent) > 1 else ""
    return f"not seen: {first.host} ({first.problem}){more}"


def tardy(scene: Scene) -> str:
    """Whose agents are late: `nothing heard of n3 for 4 s`; empty where none is."""
    late = [node for node in scene.snapshot.nodes if node.host in scene.late]
    longest = max((scene.silent_s(node) or 0.0 for node in late), default=0.0)
    return f"nothing heard of {several([node.host for node in late])} for {age(longest)}" if late else ""


class _About:
    """What is known of each machine, looked up once."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.seen = Seen(scene)
        self._gpus: defaultdict[str, int] = defaultdict(int)
        for gpu in scene.snapshot.gpus:
            self._gpus[gpu.host or ""] += 1
        self._figures = {row.host: row for row in scene.snapshot.figures}

    def lines(self, node: Node, width: int) -> Iterator[Line]:
        """One paragraph."""
        yield plain(node.host, "bad" if self.seen.is_suspected(node) else "title")
        if node.problem:
            yield from wrap(node.problem, width, first="  ", then="  ", style="warn")
        yield from wrap(" · ".join(self._facts(node)), width, first="  ", then="  ")
        if row := self._figures.get(node.host):
            yield from wrap(" · ".join(_figures(row)), width, first="  ", then="  ")
        if node.rights:
            yield from wrap(f"partial rights: {node.rights}", width, first="  ", then="  ", style="warn")
        for command in node.commands:
            # On one line, so that it can be copied as it stands.
            yield plain(f"  {command}", "dim")
        yield BLANK

    def _facts(self, node: Node) -> Iterator[str]:
        if ranks := self.seen.ranks(node):
            yield ranges(ranks)
        if node.taken_at is not None:
            cpus = fmt.plural(node.cpu_count, "CPU")
            yield fmt.plural(self.seen.processes[node.host], "process", "processes")
            yield f"the job uses {fmt.percent(self.seen.cpu(node))} % of {cpus}"
            if self._gpus[node.host]:
                yield fmt.plural(self._gpus[node.host], "GPU")
            yield f"seen {age(self._scene.since(node.taken_at) or 0.0)} ago"
        elif not node.problem:
            yield "its processes were not queried"
        if node.state:
            yield f"its agent: {agent(self._scene, node)}" + (f", mpmon {node.version}" if node.version else "")
        if node.rights == "":
            yield "full rights"
        if abs(node.offset_s) >= CLOCK_S:
            yield f"its clock is {abs(node.offset_s):.2f} s {'ahead' if node.offset_s > 0 else 'behind'}"


def _figures(row: Figures) -> Iterator[str]:
    """Those that are known, and what they are of."""
    known = [words.format(value) for name, words in FIGURES if (value := getattr(row, name)) is not None]
    yield from known
    if known:
        yield f"over {age(row.over_s)}"


def _elsewhere(scene: Scene, row: Elsewhere, width: int) -> Iterator[Line]:
    where = "machines that were not queried" if row.hosts is None else row.hosts
    yield from wrap(where, width, style="title")
    since = "" if row.since is None else f", since {age(scene.since(row.since) or 0.0)}"
    like = "" if row.like is None else f"; rank {row.like} represents them"
    yield from wrap(f"{ranges(row.ranks)}: {row.does}{since}{like}", width, first="  ", then="  ")
