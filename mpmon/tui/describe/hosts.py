"""The machines of a job, for their own page: those who must act first, those that are not seen, those at hand, the rest."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from mpmon.diagnosis.words import age, ranges
from mpmon.model import PIDS_OF_A_HOST
from mpmon.spans import spans
from mpmon.tui import format as fmt
from mpmon.tui.line import BLANK, Line, plain, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.model import Elsewhere, Node
    from mpmon.tui.scene import Scene

MOST = 200
"""Machines of which each is told."""

CLOCK_S = 0.01
"""A clock that is ahead by less is right."""


def hosts(scene: Scene, width: int) -> list[Line]:
    """A paragraph for each machine whose facts are at hand or which is silent, then classes of the others."""
    if not scene.hosts:
        return wrap("this job is watched on one machine", width, style="dim")
    about = _About(scene)
    nodes = sorted(scene.snapshot.nodes, key=about.place)
    lines = [line for node in nodes[:MOST] for line in about.lines(node, width)]
    if len(nodes) > MOST:
        lines.append(plain(f"and {len(nodes) - MOST} more", "dim"))
    for row in scene.snapshot.elsewhere:
        lines += [*_elsewhere(scene, row, width), BLANK]
    return lines[:-1] if lines and lines[-1] == BLANK else lines


def unseen(scene: Scene) -> str:
    """What of the job nobody could look at: `not seen: n3 (does not answer) and 2 more`; empty where all was."""
    silent = [node for node in scene.snapshot.nodes if node.problem]
    if not silent:
        return ""
    first, more = silent[0], f" and {len(silent) - 1} more (H)" if len(silent) > 1 else ""
    return f"not seen: {first.host} ({first.problem}){more}"


class _About:
    """What is known of each machine, looked up once."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._suspected = {pid // PIDS_OF_A_HOST for pid in scene.suspects}
        self._ranks: defaultdict[int, set[int]] = defaultdict(set)
        for view in scene.views.values():
            if view.rank is not None:
                self._ranks[view.pid // PIDS_OF_A_HOST].add(view.rank)
        self._gpus: defaultdict[str, int] = defaultdict(int)
        for gpu in scene.snapshot.gpus:
            self._gpus[gpu.host or ""] += 1
        self._processes: defaultdict[str, int] = defaultdict(int)
        self._cpu: defaultdict[int, float] = defaultdict(float)
        for process in scene.snapshot.processes:
            self._processes[process.host or ""] += 1
        for view in scene.views.values():
            self._cpu[view.pid // PIDS_OF_A_HOST] += view.cpu_percent or 0.0

    def place(self, node: Node) -> tuple[bool, bool, int]:
        """Who must act first, then who is silent."""
        return node.number not in self._suspected, not node.problem, node.number

    def lines(self, node: Node, width: int) -> Iterator[Line]:
        """One paragraph."""
        yield plain(node.host, "bad" if node.number in self._suspected else "title")
        if node.problem:
            yield from wrap(node.problem, width, first="  ", then="  ", style="warn")
        else:
            yield from wrap(" · ".join(self._facts(node)), width, first="  ", then="  ")
        for command in node.commands:
            # On one line, so that it can be copied as it stands.
            yield plain(f"  {command}", "dim")
        yield BLANK

    def _facts(self, node: Node) -> Iterator[str]:
        if ranks := self._ranks[node.number]:
            yield ranges(spans(ranks))
        yield fmt.plural(self._processes[node.host], "process", "processes")
        yield f"the job uses {fmt.percent(round(self._cpu[node.number]))} % of {fmt.plural(node.cpu_count, 'CPU')}"
        if self._gpus[node.host]:
            yield fmt.plural(self._gpus[node.host], "GPU")
        yield f"seen {age(self._scene.since(node.taken_at) or 0.0)} ago"
        if abs(node.offset_s) >= CLOCK_S:
            yield f"its clock is {abs(node.offset_s):.2f} s {'ahead' if node.offset_s > 0 else 'behind'}"


def _elsewhere(scene: Scene, row: Elsewhere, width: int) -> Iterator[Line]:
    where = "machines that were not asked" if row.hosts is None else row.hosts
    yield from wrap(where, width, style="title")
    since = "" if row.since is None else f", since {age(scene.since(row.since) or 0.0)}"
    like = "" if row.like is None else f"; rank {row.like} stands for them"
    yield from wrap(f"{ranges(row.ranks)}: {row.does}{since}{like}", width, first="  ", then="  ")
