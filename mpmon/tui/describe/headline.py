"""The first line of every screen: which job, and how it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import Verdict
from mpmon.tui import format as fmt
from mpmon.tui.line import Line, Span, cells, clip, justify, plain

if TYPE_CHECKING:
    from mpmon.tui.scene import Scene

NAME_AT_LEAST = 12
"""Cells of the command, however much else there is to say."""

VERDICT_STYLES = {Verdict.HUNG: "bad", Verdict.SLOW: "warn", Verdict.HEALTHY: "good", Verdict.UNKNOWN: "dim"}


def headline(scene: Scene, width: int, *, source: str = "", live: bool = True, marks: tuple[str, ...] = ()) -> Line:
    """The job at the left, the verdict with its age at the right.

    Args:
        scene: What is shown.
        width: Cells to fill.
        source: Where it comes from, when that is not one live process.
        live: It goes on; else its age matters to nobody.
        marks: Words on the state of the display, such as "paused".
    """
    right = (*((f"[{mark}] ", "warn") for mark in marks), *verdict(scene))
    begin: Line = ((f"{source} · ", "title"),) if source else ()
    size = job_size(scene) + (_age(scene) if live else "")
    size = size if source else f"pid {scene.snapshot.root_pid} · {size}"
    room = width - cells((*begin, *right)) - len(f" · {size}  ")
    name = _command(scene, max(room, NAME_AT_LEAST))
    return justify((*begin, *name, (size, "")), right, width)


def _command(scene: Scene, room: int) -> Line:
    """What the job's root runs: it is cut first, for it may be of any length."""
    root = scene.processes.get(scene.snapshot.root_pid)
    if root is None or not root.cmdline:
        return ()
    return (*clip(plain(fmt.command(root.cmdline), "bold"), room), (" · ", ""))


def _age(scene: Scene) -> str:
    """How old the job is, while it lives."""
    return "" if scene.over else f" · up {fmt.short_age(scene.since(scene.snapshot.root_start_time))}"


def job_size(scene: Scene) -> str:
    """How many ranks there are here, of how many, and how many processes."""
    processes = _processes(scene)
    if scene.hosts:
        queried = " queried" if scene.snapshot.elsewhere else ""
        seen = sum(1 for node in scene.snapshot.nodes if node.taken_at is not None)
        silent = sum(1 for node in scene.snapshot.nodes if node.problem)
        hosts = f"{seen} of {seen + silent} hosts" if silent else fmt.plural(seen, "host")
        processes = f"{processes} on {hosts}{queried}"
    ranks = {v.rank for v in scene.diagnosis.processes if v.rank is not None}
    if not ranks:
        return processes
    world = max((v.world_size or 0 for v in scene.diagnosis.processes), default=0)
    here = f"{len(ranks)} of {world} ranks" if world > len(ranks) else fmt.plural(len(ranks), "rank")
    return f"{here} · {processes}"


def _processes(scene: Scene) -> str:
    """As many as are listed, and how many of them have ended, unless all have: "5 processes, 2 ended"."""
    known = (scene.processes.get(pid) for pid in scene.views)
    listed = [row for row in known if row is not None and (row.host or not scene.hosts)]
    ended = sum(row.ended for row in listed)
    return fmt.plural(len(listed), "process", "processes") + (f", {ended} ended" if ended and not scene.over else "")


def verdict(scene: Scene) -> Line:
    """The word, and for how long it has been so."""
    diagnosis = scene.diagnosis
    if scene.over:
        return (("ENDED", "bold"),)
    style = VERDICT_STYLES[diagnosis.verdict]
    word: Span = (diagnosis.verdict.value.upper(), style)
    if diagnosis.verdict is Verdict.UNKNOWN:
        return (word, (f" after {fmt.age(scene.observation.watched_s)}", style))
    if diagnosis.since is None:
        return (word,)
    return (word, (" " + fmt.age(scene.since(diagnosis.since)), style))
