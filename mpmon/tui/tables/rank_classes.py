"""Ranks that were not asked, as lines of the list: one a class, however many they are. Pure.

Of a job on many machines only few ranks are at hand.  The others stand as classes in the table `elsewhere`: where a rank at
hand stands for such a class, its line tells of all of them; a class for which nobody stands has a line of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.roles.role import RANK
from mpmon.spans import count, spans, union
from mpmon.tui import format as fmt
from mpmon.tui.tables.process_rows import Row

if TYPE_CHECKING:
    from mpmon.model import Elsewhere
    from mpmon.spans import Spans
    from mpmon.tui.scene import Scene


def with_classes(scene: Scene, rows: list[Row], wanted: str = "") -> list[Row]:
    """The rows with all ranks that are not at hand; only classes with the `wanted` text have lines of their own."""
    if not scene.snapshot.elsewhere:
        return rows
    lines = {pid: at for at, row in enumerate(rows) for pid in row.members or (row.pid,)}
    found, alone = list(rows), list[Row]()
    for number, row in enumerate(scene.snapshot.elsewhere, 1):
        at = lines.get(_pid_of(scene, row.like))
        if at is not None:
            found[at] = _extended(scene, found[at], row)
        elif wanted.casefold() in f"{named(row.ranks)} {row.does} {row.hosts or ''}".casefold():
            alone.append(_alone(scene, row, -number))
    return found + alone


def nothing_of(scene: Scene, host: str) -> Row:
    """In place of the processes of a machine of which none is at hand."""
    node = next((node for node in scene.snapshot.nodes if node.host == host), None)
    if node is None:
        does = "is not known any more"
    elif node.problem:
        does = node.problem
    elif node.taken_at is None:
        does = "its processes were queried: they arrive with one of the next samples"
    else:
        does = "no process of the job runs there"
    return Row(
        pid=-1, role=host, prefix="", hidden=0, suspect=False, mood="", does=does, cpu=None, rss=None, still_s=None
    )


def elsewhere(scene: Scene) -> int:
    """How many ranks of the job are not at hand, as far as is known."""
    return count(union(*(row.ranks for row in scene.snapshot.elsewhere)))


def named(ranks: Spans) -> str:
    """`rank 0–3,8–7999`."""
    return f"{RANK} {','.join(fmt.between(str(first), str(last)) for first, last in ranks)}"


def _pid_of(scene: Scene, rank: int | None) -> int:
    """The process that is this rank; 0 where there is none."""
    if rank is None:
        return 0
    return next((view.pid for view in scene.views.values() if view.rank == rank and scene.is_rank(view.pid)), 0)


def _extended(scene: Scene, row: Row, more: Elsewhere) -> Row:
    """The line of whoever stands for a class; of the others nobody has read CPU time and memory."""
    own = [pid for pid in row.members or (row.pid,) if scene.is_rank(pid)]
    ranks = spans(rank for pid in own if (rank := scene.views[pid].rank) is not None)
    hosts = {process.host for pid in own if (process := scene.processes.get(pid))}
    machines = None if more.machines is None else more.machines + len(hosts)
    return row._replace(
        role=named(union(ranks, more.ranks)),
        host=_hosts(machines),
        stands_for=row.stands_for + count(more.ranks),
        cpu=None,
        cpu_least=None,
        rss=None,
    )


def _alone(scene: Scene, row: Elsewhere, key: int) -> Row:
    mood = "waiting" if row.operation else "working" if row.since is None else ""
    still = None if row.since is None else fmt.steady(max(0.0, scene.now - row.since))
    return Row(
        pid=key, role=named(row.ranks), prefix="", hidden=0, suspect=False, mood=mood, does=row.does, cpu=None, rss=None,
        still_s=still, host=_hosts(row.machines), stands_for=count(row.ranks),
    )  # fmt: skip


def _hosts(machines: int | None) -> str:
    return fmt.UNKNOWN if machines is None else fmt.plural(machines, "host")


def is_class(row: Row) -> bool:
    """None of its ranks is at hand, so that there is no process to select."""
    return row.pid < 0
