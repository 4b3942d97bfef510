"""What is said of nodes that are silent, lost or out."""

from __future__ import annotations

from collections import Counter

from mpmon.diagnosis.humanize import ranges
from mpmon.errors import CannotTell
from mpmon.model import ProbeReport
from mpmon.nodes.members import CONNECT_S, LOST_S, NodeState, State
from mpmon.printable import in_bounds
from mpmon.spans import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_NAMED = 5
"""Most nodes or jobs named in one sentence."""


def nobody(nodes: list[NodeState]) -> CannotTell:
    """Why no node can be watched."""
    troubles = Counter(node.problem for node in nodes if node.problem)
    if not troubles:
        return CannotTell(f"{names(nodes)} did not answer within {CONNECT_S:.0f} s.", "Are they up? Try again.")
    usual, _ = troubles.most_common(1)[0]
    first, *same = [node for node in nodes if node.problem == usual]
    others = [node for node in nodes if node.problem != usual]
    alike = f"; the same for {names(same)}" if same else ""
    more = f"; {names(others)}: not reached either" if others else ""
    return CannotTell(f"{first.name} {usual.reason}{alike}{more}.", usual.remedy)


def reports(nodes: list[NodeState]) -> tuple[ProbeReport, ...]:
    """The problem of each of these nodes, as the rest of a sentence about it."""
    return tuple(ProbeReport(name=node.name, ok=False, seconds=0.0, problem=problem(node)) for node in nodes)


def problem(node: NodeState, *, how_long: bool = True) -> str:
    """The problem of a node, and its ranks if known: as the rest of `n2 …`.

    Without the duration, which always changes, the text is stable until something else goes wrong.
    """
    reason = node.problem.reason if node.problem else "has not answered"
    is_timed = how_long and node.state is State.LOST and node.silent_s >= LOST_S
    silent = f", silent for {node.silent_s:.0f} s" if is_timed else ""
    there = f"; {ranges(node.ranks)} run{'s' if count(node.ranks) == 1 else ''} there" if node.ranks else ""
    return f"{reason}{silent}{there}"


def names(nodes: list[NodeState]) -> str:
    """The names of these nodes, or the first ones of many."""
    return listed(node.name for node in nodes)


def listed(words: Iterable[str]) -> str:
    """These words, or the first ones of many."""
    found = list(words)
    shown = ", ".join(in_bounds(word, 80) for word in found[:MOST_NAMED])
    return f"{shown} and {len(found) - MOST_NAMED} others" if len(found) > MOST_NAMED else shown
