"""The machines of a job as lines of their page: those who must act first, the silent ones, those at hand, the rest. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mpmon.diagnosis.throughput.figures import differences
from mpmon.model import PIDS_OF_A_HOST
from mpmon.spans import both, spans
from mpmon.tui import format as fmt
from mpmon.tui.line import Line, fit

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from mpmon.model import Elsewhere, Node
    from mpmon.spans import Spans
    from mpmon.tui.scene import Scene

SKEW_S = 1.0
"""Clocks that differ by less mislead nobody: no note."""

COLUMNS = (("host", 14, False), ("agent", 18, False), ("ranks", 9, False), ("procs", 5, True), ("CPU", 5, True),
           ("load", 5, True), ("rights", 7, False))  # fmt: skip
"""Name, width and side; notes have what is left. CPU is what the job uses, per cent of one core; load is for each CPU."""

FRESH_S = 3.0
"""What was heard so lately is as good as now."""


class HostRow(NamedTuple):
    """One machine. Numbers are as they are shown, so that a row is equal to the one before unless its line would differ."""

    host: str
    style: str
    agent: str
    ranks: str
    processes: int | None
    """`None` for one whose processes were not asked for."""
    cpu: int | None
    load: str
    rights: str
    notes: str


def host_rows(scene: Scene) -> list[HostRow]:
    """All of which each is told."""
    seen = Seen(scene)
    differ: defaultdict[str, list[str]] = defaultdict(list)
    for row in differences({row.host: row for row in scene.snapshot.figures}):
        if row.kind.accuses:
            differ[row.machine].append(row.kind.words.format(fmt.percent(row.value)))
    usual = {row.version for row in scene.snapshot.nodes if row.taken_at is not None}
    return [
        _row(scene, seen, node, [*_notes(node, usual), *differ[node.host]])
        for node in sorted(scene.snapshot.nodes, key=seen.place)
    ]


class Seen:
    """What is known of the machines by their processes, looked up once."""

    def __init__(self, scene: Scene) -> None:
        self._suspected = {pid // PIDS_OF_A_HOST for pid in scene.suspects}
        self._ranks: defaultdict[int, set[int]] = defaultdict(set)
        self._cpu: defaultdict[int, float] = defaultdict(float)
        for view in scene.views.values():
            number = view.pid // PIDS_OF_A_HOST
            self._cpu[number] += view.cpu_percent or 0.0
            if view.rank is not None:
                self._ranks[number].add(view.rank)
        self.figures = {row.host: row for row in scene.snapshot.figures}
        self.processes: defaultdict[str, int] = defaultdict(int)
        for process in scene.snapshot.processes:
            self.processes[process.host or ""] += 1

    def is_suspected(self, node: Node) -> bool:
        """Somebody must act there."""
        return node.number in self._suspected

    def place(self, node: Node) -> tuple[bool, bool, bool, int]:
        """Who must act first, then who is silent, then those at hand."""
        return not self.is_suspected(node), not node.problem, node.taken_at is None, node.number

    def ranks(self, node: Node) -> Spans:
        """Those that run there, by their processes or by its own words."""
        return spans(self._ranks[node.number]) or node.ranks

    def cpu(self, node: Node) -> int:
        """Per cent of one core that the job uses there."""
        return round(self._cpu[node.number])


def agent(scene: Scene, node: Node) -> str:
    """How its agent is, and since when nothing was heard of it: `fresh`, `late 4 s`, `unreachable 12 s`."""
    if node.state is None:
        return "unreachable" if node.problem else "recorded"
    silent_s = scene.silent_s(node)
    if silent_s is None or silent_s < FRESH_S:
        return node.state
    return f"{node.state} {int(silent_s)} s" if silent_s < fmt.MINUTE else f"{node.state} {fmt.short_age(silent_s)}"


def first_of(scene: Scene, row: Elsewhere) -> list[str]:
    """The machines where ranks of a class run, as far as each is told."""
    return [node.host for node in scene.snapshot.nodes if both(node.ranks, row.ranks)]


def _row(scene: Scene, seen: Seen, node: Node, notes: list[str]) -> HostRow:
    figures = seen.figures.get(node.host)
    is_here = node.taken_at is not None
    return HostRow(
        host=node.host, style=_style(scene, seen, node),
        agent=agent(scene, node), ranks=",".join(fmt.between(str(a), str(b)) for a, b in seen.ranks(node)) or fmt.UNKNOWN,
        processes=seen.processes[node.host] if is_here else None, cpu=seen.cpu(node) if is_here else None,
        load=fmt.UNKNOWN if figures is None or figures.load_per_cpu is None else f"{figures.load_per_cpu:.1f}",
        rights=fmt.UNKNOWN if node.rights is None else "partial" if node.rights else "full",
        notes=" · ".join(notes),
    )  # fmt: skip


def _style(scene: Scene, seen: Seen, node: Node) -> str:
    if seen.is_suspected(node):
        return "bad"
    if node.problem:
        return "warn"
    return "" if node.taken_at is not None and node.host not in scene.late else "dim"


def _notes(node: Node, usual: Container[str | None]) -> Iterator[str]:
    """What is wrong with it; `usual` are the versions of mpmon that work together."""
    if node.problem:
        yield node.problem
    elif node.taken_at is None:
        yield "not queried (Enter)"
    if node.version and node.taken_at is None and node.problem and node.version not in usual:
        yield f"mpmon {node.version}"
    if abs(node.offset_s) > SKEW_S:
        yield f"clock {fmt.age(abs(node.offset_s))} {'ahead' if node.offset_s > 0 else 'behind'}"


def line(row: HostRow, width: int) -> Line:
    """One machine in so many cells."""
    texts = (row.host, row.agent, row.ranks, fmt.number(row.processes), fmt.number(row.cpu), row.load, row.rights)
    parts = [fit(text, cells, right=right) for text, (_, cells, right) in zip(texts, COLUMNS, strict=True)]
    head = "  " + " ".join(parts) + " "
    return ((head, row.style), (fit(row.notes, max(0, width - len(head))), row.style))
