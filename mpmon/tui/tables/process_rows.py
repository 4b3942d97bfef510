"""Processes as the list shows them, one row each, or one for several that share a line. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mpmon.diagnosis.memo import others
from mpmon.model import PIDS_OF_A_HOST
from mpmon.tui import format as fmt
from mpmon.tui.describe.naming import short_names

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from mpmon.diagnosis.findings import ProcessView
    from mpmon.diagnosis.gpus import Device, Share
    from mpmon.model import GpuProcess, Process
    from mpmon.tui.scene import Scene
    from mpmon.tui.tables.tree import Branch

MIXED = "mixed"
"""The state of several that are not in the same one."""

GPU_WIDTH = 3
"""Cells for the numbers of GPUs."""


class Row(NamedTuple):
    """One process as the list shows it, or several that share a line.

    Numbers are rounded to what is shown, so that a row is equal to the one before unless its line would differ.
    """

    pid: int
    role: str
    prefix: str
    hidden: int
    suspect: bool
    mood: str
    does: str
    cpu: int | None
    """Percent of one core; of several the highest."""
    rss: int | None
    """Bytes resident; of several the sum."""
    still_s: int | None
    members: tuple[int, ...] = ()
    """Who shares the line; empty for one alone."""
    tagged: bool = False
    cpu_least: int | None = None
    """Of several the lowest percent."""
    gpu: str = ""
    """The devices it is on."""
    gpu_memory: int | None = None
    """Bytes on all of them."""
    gpu_sm: int | None = None
    """Percent of the SMs; of several devices the highest."""
    gpu_sm_least: int | None = None
    """Of several devices the lowest percent."""
    history: str = ""
    """CPU it used lately, where there is room for it."""
    number: int = 0
    """The pid it has on its machine; 0 for what the trees of several machines hang on, which is no process."""
    host: str = ""
    """That machine, of a job on several; of several processes the number of machines where they are not of one."""
    stands_for: int = 0
    """Ranks that are not at hand, of which the line tells as well."""
    slowest: bool = False
    """The other ranks wait for it most of the time; of several for one of them."""
    late: bool = False
    """Nothing was heard of its machine for some seconds; of several processes, of all their machines."""

    @property
    def sharers(self) -> int:
        """How many share the line."""
        return (len(self.members) or int(self.number > 0)) + self.stands_for


class _Facts(NamedTuple):
    """All that the row of one process is made of, but for GPUs."""

    view: ProcessView
    process: Process | None
    prefix: str
    hidden: int
    still_s: int | None
    suspect: bool
    slowest: bool
    waits_for: str
    late: bool
    number: int

    def row(self) -> Row:
        """What the list shows of the process; one that has ended uses nothing."""
        view, process = self.view, self.process
        living = None if process is None or process.ended else process
        return Row(
            pid=view.pid,
            role=view.role,
            prefix=self.prefix,
            hidden=self.hidden,
            suspect=self.suspect,
            slowest=self.slowest,
            mood=view.mood or (process.state if process else "dead"),
            does=view.does or self.waits_for,
            cpu=round(view.cpu_percent) if living and view.cpu_percent is not None else None,
            rss=living.rss_bytes >> 20 << 20 if living else None,
            still_s=self.still_s,
            number=self.number,
            host=process.host if process else "",
            late=self.late,
        )


class _Group(NamedTuple):
    """Processes that share a line."""

    row: Row
    """That of the line, but for what depends on time and place."""
    rows: dict[int, Row]
    """Of each, by pid."""
    since: dict[int, float | None]
    """Since when each stands still."""

    def at(self, now: float, branch: Branch) -> Row:
        """The row of this moment."""
        known = [moment for moment in self.since.values() if moment is not None]
        still = fmt.steady(now - max(known)) if len(known) == len(self.since) else None
        return self.row._replace(prefix=branch.prefix, hidden=branch.hidden, still_s=still)


class Rows:
    """Makes rows, and keeps those of the scene before: processes of which nothing changed keep their row."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[_Facts, Row]] = {}
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._scene: Scene | None = None

    def of(self, scene: Scene, branches: Iterable[Branch], tagged: Container[int] = ()) -> list[Row]:
        """The rows of these branches."""
        changed = _changed(self._scene, scene)
        self._scene = scene
        kept, self._kept = self._kept, {}
        groups, self._groups = ({} if changed is None else self._groups), {}
        rows: list[Row] = []
        for branch in branches:
            if branch.members:
                row = self._group(scene, branch, groups.get(branch.members), changed or set())
            else:
                row = self._row(scene, branch.pid, branch, kept)
            if tagged and any(pid in tagged for pid in branch.members or (branch.pid,)):
                row = row._replace(tagged=True)
            rows.append(_with_gpu(scene, row) if scene.snapshot.gpus else row)
        return rows

    def _row(self, scene: Scene, pid: int, branch: Branch, kept: dict[int, tuple[_Facts, Row]]) -> Row:
        """One process; the row of before where it would be the same."""
        view, process = scene.views[pid], scene.processes.get(pid)
        late = process is not None and process.host in scene.late
        is_process = not scene.snapshot.nodes or pid != scene.snapshot.root_pid
        still = None if view.still_since is None else fmt.steady(scene.now - view.still_since)
        facts = _Facts(
            view, process, branch.prefix, branch.hidden, still, pid in scene.suspects, pid in scene.slowest,
            scene.waiters.get(pid, ""), late, pid % PIDS_OF_A_HOST if is_process else 0,
        )  # fmt: skip
        before = kept.get(pid)
        self._kept[pid] = before if before is not None and before[0] == facts else (facts, facts.row())
        return self._kept[pid][1]

    def _group(self, scene: Scene, branch: Branch, before: _Group | None, changed: set[int]) -> Row:
        """Several that share a line; of those from before only the ones that changed since are looked at."""
        pids = branch.members
        anew = pids if before is None else changed.intersection(pids)
        rows = {pid: self._row(scene, pid, branch, {}) for pid in anew}
        since = {pid: scene.views[pid].still_since for pid in anew}
        if before is None:
            group = _Group(_together(pids, rows.values(), short_names(scene, pids)), rows, since)
        elif rows:
            same_names = all(row.role == before.rows[pid].role for pid, row in rows.items())
            name = before.row.role if same_names else short_names(scene, pids)
            rows, since = before.rows | rows, before.since | since
            group = _Group(_together(pids, rows.values(), name), rows, since)
        else:
            group = before
        self._groups[pids] = group
        return group.at(scene.now, branch)


def _changed(before: Scene | None, now: Scene) -> set[int] | None:
    """Processes of which something else is known or said than before; `None` where that may be so of all."""
    if before is None or before.snapshot.exits is not now.snapshot.exits:
        return None
    if (
        (before.suspects, before.slowest) != (now.suspects, now.slowest)
        or before.waiters != now.waiters
        or before.late != now.late
    ):
        return None
    rows = others(before.snapshot.processes, now.snapshot.processes)
    views = others(before.diagnosis.processes, now.diagnosis.processes)
    return None if rows is None or views is None else {row.pid for _, row in (*rows, *views)}


def _together(pids: tuple[int, ...], members: Iterable[Row], name: str) -> Row:
    """One row for several: memory summed, percents as a range, and what they do, or how many do what.

    A number is unknown unless that of each member is known.
    """
    rows = list(members)
    moods, does = Counter(row.mood for row in rows), {row.does for row in rows}
    counted = ", ".join(f"{count} {mood or 'unknown'}" for mood, count in moods.most_common())
    hosts = {row.host for row in rows}
    cpu_least, cpu = _range([row.cpu for row in rows])
    return rows[0]._replace(
        role=name,
        members=pids,
        mood=rows[0].mood if len(moods) == 1 else MIXED,
        slowest=any(row.slowest for row in rows),
        does=rows[0].does if len(does) == 1 else counted,
        cpu=cpu,
        cpu_least=cpu_least,
        rss=fmt.total(row.rss for row in rows),
        host=rows[0].host if len(hosts) == 1 else f"{len(hosts)} hosts",
        late=all(row.late for row in rows),
    )


def _with_gpu(scene: Scene, row: Row) -> Row:
    """Adds what it uses of GPUs, with those folded below it; numbers are unknown unless every part is known."""
    found = scene.gpu_branches if row.hidden else scene.gpu_processes
    pids = found.keys() & row.members if row.members else (row.pid,)
    parts = [part for pid in pids for part in found.get(pid, ())]
    if not parts:
        return row
    least, most = _range(_sm_by_device(parts))
    return row._replace(
        gpu=_places({(scene.gpu_index[p.gpu_uuid], p.mig_instance) for p in parts if p.gpu_uuid in scene.gpu_index}),
        gpu_memory=fmt.total(part.memory_bytes for part in parts),
        gpu_sm=most,
        gpu_sm_least=least,
    )


def _sm_by_device(parts: Iterable[GpuProcess | Share]) -> list[int | None]:
    """Percent of the SMs of each device: processes on one device add up, devices do not."""
    by_device: defaultdict[Device, list[float | None]] = defaultdict(list)
    for part in parts:
        by_device[part.gpu_uuid, part.mig_instance, part.compute_instance].append(part.sm_percent)
    sums = [fmt.total(percents) for percents in by_device.values()]
    return [None if percent is None else round(percent) for percent in sums]


def _range(values: list[int | None]) -> tuple[int | None, int | None]:
    """The lowest and the highest; unknown unless all are known."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known and len(known) == len(values) else (None, None)


def _places(found: set[tuple[int, int | None]]) -> str:
    """`0–7`, `0:1`; how many, where their names would not fit."""
    said = fmt.places(found)
    return said if len(said) <= GPU_WIDTH else f"×{len(found)}"
