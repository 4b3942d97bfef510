"""The first line of every screen: which job, and how it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import Verdict
from mpmon.tui import format as fmt
from mpmon.tui.line import Line, Span, justify

if TYPE_CHECKING:
    from mpmon.tui.scene import Scene

VERDICT_STYLES = {Verdict.HUNG: "bad", Verdict.SLOW: "warn", Verdict.HEALTHY: "good", Verdict.UNKNOWN: "dim"}


def headline(scene: Scene, width: int, *, source: str = "", marks: tuple[str, ...] = ()) -> Line:
    """The job at the left, the verdict with its age at the right.

    Args:
        scene: What is shown.
        width: Cells to fill.
        source: Where it comes from, when that is not a live job.
        marks: Words on the state of the display, such as "paused".
    """
    left: list[Span] = [(job_name(scene), "bold"), (f" · {job_size(scene)}", "")]
    if source:
        left.insert(0, (f"{source} · ", "title"))
    right = [(f"[{mark}] ", "warn") for mark in marks]
    return justify(tuple(left), (*right, *verdict(scene)), width)


def job_name(scene: Scene) -> str:
    """The command and the pid of the job's root."""
    pid = scene.snapshot.root_pid
    root = scene.processes.get(pid)
    return f"{fmt.command(root.cmdline)} · pid {pid}" if root and root.cmdline else f"pid {pid}"


def job_size(scene: Scene) -> str:
    """How many ranks run here, of how many, and how many processes."""
    processes = fmt.plural(len(scene.snapshot.processes), "process", "processes")
    ranks = {v.rank for v in scene.diagnosis.processes if v.rank is not None}
    if not ranks:
        return processes
    world = max((v.world_size or 0 for v in scene.diagnosis.processes), default=0)
    here = f"{len(ranks)} of {world} ranks" if world > len(ranks) else fmt.plural(len(ranks), "rank")
    return f"{here} · {processes}"


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
