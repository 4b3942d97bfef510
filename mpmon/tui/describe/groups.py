"""Stacks of all processes, equal ones together: who does what the others do not, stands out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mpmon.tui.describe.frames import frame_lines, own_frames
from mpmon.tui.describe.naming import kind_of, names_of
from mpmon.tui.line import BLANK, Line, wrap

if TYPE_CHECKING:
    from mpmon.model import Stack
    from mpmon.tui.scene import Scene


def groups(scene: Scene, width: int) -> list[Line]:
    """All processes, equal main-thread stacks together: suspects first, then the odd ones out of their kind."""
    lines: list[Line] = []
    for pids in in_order_of_interest(scene, list(group_pids(scene).values())):
        lines += [*_group_title(scene, pids, width), *_main_frames(scene, pids[0], width), BLANK]
    without = [pid for pid in scene.views if not _main_stack(scene, pid)]
    if without:
        lines += wrap(f"without a stack: {names_of(scene, without)}", width, style="dim", then="  ")
    return lines


def in_order_of_interest(scene: Scene, found: list[list[int]]) -> list[list[int]]:
    """Groups with suspects, then those in which fewer than half of a kind are, then the rest; small ones first.

    A rank that does not do what the other seven do is odd, a launcher that is alone is not.
    """
    kinds = Counter(_kind(scene, pid) for pids in found for pid in pids)

    def rank(pids: list[int]) -> tuple[object, ...]:
        own = Counter(_kind(scene, pid) for pid in pids)
        odd = any(2 * count < kinds[kind] for kind, count in own.items())
        return (not scene.suspects & set(pids), not odd, len(pids), pids)

    return sorted(found, key=rank)


def _kind(scene: Scene, pid: int) -> str:
    return kind_of(scene.role(pid)).name


def group_pids(scene: Scene) -> dict[tuple[tuple[str, int, str], ...], list[int]]:
    """Pids by the frames of their main threads."""
    found: dict[tuple[tuple[str, int, str], ...], list[int]] = {}
    for pid in scene.views:
        stack = _main_stack(scene, pid)
        if stack is not None:
            found.setdefault(tuple((f.file, f.line, f.function) for f in own_frames(stack)), []).append(pid)
    return found


def _main_stack(scene: Scene, pid: int) -> Stack | None:
    return next((s for s in scene.stacks.get(pid, ()) if s.tid == pid), None)


def _group_title(scene: Scene, pids: list[int], width: int) -> list[Line]:
    style = "bad" if scene.suspects & set(pids) else "bold"
    count = f"{len(pids)} processes: " if len(pids) > 1 else ""
    return wrap(f"{count}{names_of(scene, pids)}", width, style=style, then="  ")


def _main_frames(scene: Scene, pid: int, width: int) -> list[Line]:
    stack = _main_stack(scene, pid)
    return frame_lines(stack, width, folded=True) if stack else []
