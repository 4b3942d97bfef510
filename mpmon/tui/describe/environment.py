"""The environment of one process: how it differs from that of its peers, then all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import chop_cells

from mpmon.tui import format as fmt
from mpmon.tui.describe.naming import kind_of, names_of, short_names
from mpmon.tui.line import BLANK, Line, plain, wrap
from mpmon.tui.secrets import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mpmon.tui.scene import Scene

PEERS = 32
"""At most so many processes are compared with."""

NOT_SET = "not set"
INDENT = "      "
VALUE_LINES = 8
"""Lines of one value at most; PATH may have more."""


class Answer(NamedTuple):
    """What came back when a process was asked for its variables."""

    variables: Mapping[str, str]
    problem: str = ""
    """Why there are none, or not all."""


def peers(scene: Scene, pid: int) -> tuple[int, ...]:
    """Live processes that should have the same variables: the other ranks, or siblings of the same kind."""
    if pid not in scene.views:
        return ()
    own = scene.views[pid]
    kind = kind_of(own.role).name
    return tuple(
        view.pid
        for view in scene.views.values()
        if view.pid != pid
        and kind_of(view.role).name == kind
        and (scene.is_rank(pid) or view.parent == own.parent)
        and view.pid in scene.processes
        and not scene.processes[view.pid].ended
    )[:PEERS]


def environment(scene: Scene, pid: int, width: int, answers: Mapping[int, Answer], *, masked: bool) -> list[Line]:
    """The page, from the answers there are so far; `masked` hides secrets."""
    own = answers[pid]
    if own.problem and not own.variables:
        return wrap(own.problem, width, style="warn")
    others = {p: a.variables for p, a in answers.items() if p != pid and a.variables}
    lines = wrap(own.problem, width, style="warn") if own.problem else []
    lines += wrap("as it was when the program started; later changes are not visible", width, style="dim")
    if others:
        lines += _compared(scene, own.variables, others, width, masked=masked)
    lines += [BLANK, plain("all variables", "title")]
    for name in sorted(own.variables):
        lines += _pair(name, own.variables[name], width, masked=masked)
    return lines


def kept(scene: Scene, pid: int, width: int, why: str) -> list[Line]:
    """The few variables that every picture has, and why there are no more."""
    process = scene.processes.get(pid)
    lines = [*wrap(why, width, style="warn"), BLANK]
    variables = process.environment if process else None
    if not variables:
        return [*lines, plain("none of the recorded names" if variables == {} else "it could not be read", "dim")]
    return [*lines, *(line for name in sorted(variables) for line in _pair(name, variables[name], width, masked=True))]


def note(own: Mapping[str, str], *, masked: bool, key: bool = True) -> str:
    """How many variables there are, and how many are hidden; by which `key` that is changed."""
    secret = sum(shown(name, value) != value for name, value in own.items())
    how = "masked" if masked else "secret, shown"
    return fmt.plural(len(own), "variable") + (f" · {secret} {how}{' (v)' if key else ''}" if secret else "")


# Differences


class Difference(NamedTuple):
    """One variable that is not the same everywhere."""

    name: str
    by_value: dict[str | None, list[int]]
    """Who of the others has which value; `None` for those without it."""
    own: str | None

    @property
    def interest(self) -> int:
        """0: only this process differs; 1: some of the others differ; 2: each has its own, as with a rank's number."""
        if len(self.by_value) == 1:
            return 0
        return 2 if all(len(pids) == 1 for pids in self.by_value.values()) else 1


def differences(own: Mapping[str, str], others: Mapping[int, Mapping[str, str]]) -> list[Difference]:
    """Variables in which this process and its peers are not all alike, the most telling first."""
    names = set(own).union(*others.values())
    found: list[Difference] = []
    for name in names:
        by_value: dict[str | None, list[int]] = {}
        for pid, variables in others.items():
            by_value.setdefault(variables.get(name), []).append(pid)
        if set(by_value) != {own.get(name)}:
            found.append(Difference(name, by_value, own.get(name)))
    return sorted(found, key=lambda difference: (difference.interest, difference.name))


def _compared(
    scene: Scene, own: Mapping[str, str], others: Mapping[int, Mapping[str, str]], width: int, *, masked: bool
) -> list[Line]:
    found = differences(own, others)
    who = names_of(scene, sorted(others))
    lines = [BLANK, plain(f"{'differs from' if found else 'the same as'} {who}", "title")]
    for difference in found:
        lines += _difference(scene, difference, width, masked=masked)
    return lines


def _difference(scene: Scene, found: Difference, width: int, *, masked: bool) -> list[Line]:
    style = "warn" if found.interest == 0 else ""
    lines = _pair(found.name, found.own, width, masked=masked, style=style)
    if found.interest == 2 and len(found.by_value) > 2:
        return [*lines, plain(f"{INDENT}each has its own", "dim")]
    for value, pids in found.by_value.items():
        said = NOT_SET if value is None else _said(found.name, value, masked=masked)
        if value is not None and value == found.own:
            said = "the same"
        elif value is not None and found.own is not None and said == _said(found.name, found.own, masked=masked):
            said = f"{said} (another)"
        lines += wrap(f"{short_names(scene, pids)}: {said}", width, first=INDENT, then=INDENT + "  ", style="dim")
    return lines


def _said(name: str, value: str, *, masked: bool) -> str:
    return shown(name, value) if masked else value


def _pair(name: str, value: str | None, width: int, *, masked: bool, style: str = "") -> list[Line]:
    """`  NAME=value`, a long value on lines of its own."""
    if value is None:
        return [((f"  {name}", "key"), (f" {NOT_SET} here", style))]
    first, *rest = _broken(_said(name, value, masked=masked), width - len(name) - 3, width - len(INDENT))
    lines: list[Line] = [((f"  {name}", "key"), ("=", ""), (first, style))]
    lines += [plain(INDENT + part, style) for part in rest[: VALUE_LINES - 1]]
    if len(rest) >= VALUE_LINES:
        left = sum(map(len, rest[VALUE_LINES - 1 :]))
        lines.append(plain(f"{INDENT}… {left} more characters", "dim"))
    return lines


def _broken(value: str, first: int, others: int) -> Iterator[str]:
    """The value in pieces that fit: the first beside its name if that leaves room."""
    if len(value) <= first:
        yield value
        return
    start = value[:first] if first > 20 else ""
    yield start
    yield from chop_cells(value[len(start) :], max(others, 20))
