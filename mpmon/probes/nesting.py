"""What is around a line in its function, from its source: the loops it is in, and what was tested to get there.

Ranks run the same program. Where two of them are at different lines of it, this tells what lines alone do not: that one is in
an inner loop which the other has left, or that only one of them gets there: `if rank == 0: dist.barrier()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.sources import FUNCTION, Place, Source, running_sources, spans

MOST_NAMES, LONGEST_NAME = 64, 100

NOT = "not "

FURTHEST = 2
"""Most assignments followed from a name: `main` is `me == 0`, and `me` is `args.rank`."""

Test: TypeAlias = "tuple[ast.expr, bool]"
"""What is tested, and whether it holds."""


class Around(NamedTuple):
    """What is around a line; outermost first."""

    loops: tuple[str, ...] = ()
    """`for 12`, `async for 20`, `while 30`: with the line at which each begins."""
    tests: tuple[str, ...] = ()
    """Names of the variables, attributes and functions that the `if` statements around it test, and those before it that
    leave; `not rank` if it is reached only where the test fails, or where the variable is not the value it is compared with.
    Of a name that the file binds only once, also what it is bound to: with `main = rank == 0`, `if main` tests the rank.
    """


@may_hang
def around(proc: Proc, pid: int, places: Sequence[Place]) -> dict[Place, Around]:
    """What is around each of these places; those whose source is not known, or has changed, are left out.

    Args:
        proc: Where processes are.
        pid: The process that runs it; files are looked up as it sees them.
        places: Files by their whole paths, with a line each.
    """
    sources = running_sources(proc, pid, (file for file, _ in places))
    return {place: _around(sources[place[0]], place[1]) for place in places if place[0] in sources}


def _around(source: Source, line: int) -> Around:
    loops: list[str] = []
    tests: list[Test] = []
    rows = _rows_with(source.tree, line)
    while rows:
        inside = next(row for row in rows if spans(row, line))
        if isinstance(inside, FUNCTION):
            loops, tests = [], []
        else:
            tests += [test for row in rows[: rows.index(inside)] for test in _passed(row)]
            tests += _branch(inside, line)
            loops += _loop(inside, line)
        rows = _rows_with(inside, line)
    meant = _Meant(source)
    for test, holds in tests:
        meant.follow(test, holds=holds)
    names = dict.fromkeys((*(name for test, holds in tests for name in _tested(test, holds=holds)), *meant.names))
    return Around(tuple(loops), tuple(islice((name for name in names if len(name) <= LONGEST_NAME), MOST_NAMES)))


def _rows_with(node: ast.AST, line: int) -> list[ast.stmt]:
    """The statements of the part of a node that has the line; empty if none has."""
    return next((rows for rows in _parts(node) if any(spans(row, line) for row in rows)), [])


def _parts(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements in a node."""
    for name in ("body", "orelse", "finalbody"):
        rows = getattr(node, name, None)
        if isinstance(rows, list):
            yield rows
    for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield inner.body


def _branch(row: ast.stmt, line: int) -> Iterator[Test]:
    """What an `if` around the line tests."""
    if isinstance(row, ast.If):
        inside = any(spans(one, line) for one in row.body)
        if inside or any(spans(one, line) for one in row.orelse):
            yield row.test, inside


def _loop(row: ast.stmt, line: int) -> Iterator[str]:
    """The loop that a statement is, if the line is in what it repeats."""
    inside = any(spans(one, line) for one in getattr(row, "body", ()))
    if isinstance(row, ast.AsyncFor) and inside:
        yield f"async for {row.lineno}"
    if isinstance(row, ast.For) and inside:
        yield f"for {row.lineno}"
    if isinstance(row, ast.While) and (inside or spans(row.test, line)):
        yield f"while {row.lineno}"


def _passed(row: ast.stmt) -> Iterator[Test]:
    """What an `if` that leaves has tested, for those that got past it."""
    if isinstance(row, ast.If) and isinstance(row.body[-1], (ast.Return, ast.Continue, ast.Break, ast.Raise)):
        yield row.test, False


def _tested(test: ast.expr, *, holds: bool) -> Iterator[str]:
    """The names in a test, with `not ` where they are not what they are compared with."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _tested(part, holds=holds)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _tested(test.operand, holds=not holds)
    else:
        same = holds is not (isinstance(test, ast.Compare) and _excludes(test))
        for node in ast.walk(test):
            name = getattr(node, "attr", getattr(node, "id", ""))
            if name:
                yield name if same else NOT + name


class _Meant:
    """What a test says of names whose only value is known, followed through assignments and short functions: only values that
    decide it alone, such as `rank == 0`, `int(os.environ["RANK"])` or `get_rank()`.
    """

    def __init__(self, source: Source) -> None:
        self._bound = source.bound_once
        self._seen: set[str] = set()
        self.names: list[str] = []

    def follow(self, test: ast.expr, *, holds: bool, far: int = 0) -> None:
        """Note what it says if it holds, or if it does not."""
        if isinstance(test, ast.BoolOp):
            # Of `a and b`, which is false, nothing is known of either.
            for part in test.values if isinstance(test.op, ast.And) == holds else ():
                self.follow(part, holds=holds, far=far)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.follow(test.operand, holds=not holds, far=far)
        elif isinstance(test, ast.Compare) and len(test.ops) == 1:
            for operand in (test.left, test.comparators[0]):
                self._note(operand, holds=holds is not _excludes(test), far=far, is_number=True)
        else:
            self._note(test, holds=holds, far=far, is_number=False)

    def _note(self, value: ast.expr, *, holds: bool, far: int, is_number: bool) -> None:
        name = _key(value) or _name(value)
        if not name:
            return
        if far:
            self.names.append(name if holds else NOT + name)
        inner = self._bound.get(name) if _is_plain(value) and name not in self._seen else None
        if inner is None or far == FURTHEST or (is_number and isinstance(inner, _TRUTHS)):
            return
        self._seen.add(name)
        self.follow(inner, holds=holds, far=far + 1)


_TRUTHS = (ast.Compare, ast.BoolOp, ast.UnaryOp)
"""Values that are true or false, and no number of a rank."""


def _name(value: ast.expr) -> str:
    """`rank` of `self.rank`, `get_rank` of `dist.get_rank()`, `x` of `int(x)`; empty if it is something else."""
    if isinstance(value, ast.Call):
        if len(value.args) == 1 and _name(value.func) == "int":
            return _key(value.args[0]) or _name(value.args[0])
        return "" if value.args or value.keywords else _name(value.func)
    return getattr(value, "attr", getattr(value, "id", ""))


def _key(value: ast.expr) -> str:
    """`RANK` of `os.environ["RANK"]`, of `os.environ.get("RANK", 0)` and of `int(...)` of these."""
    if isinstance(value, ast.Call):
        called = _name(value.func)
        if called == "int" and len(value.args) == 1:
            return _key(value.args[0])
        key = value.args[0] if value.args and called in ("get", "getenv") else None
    else:
        key = value.slice if isinstance(value, ast.Subscript) and _name(value.value) == "environ" else None
    found = key.value if isinstance(key, ast.Constant) else None
    return found if isinstance(found, str) and found.isidentifier() else ""


def _is_plain(value: ast.expr) -> bool:
    """A variable, an attribute of `self`, or a call of a function of the file: the owner of any other attribute is not known."""
    owner = value.func if isinstance(value, ast.Call) else value
    if isinstance(owner, ast.Attribute):
        return isinstance(owner.value, ast.Name) and owner.value.id == "self"
    return isinstance(owner, ast.Name)


def _excludes(test: ast.Compare) -> bool:
    """It is true of all values but one or a few: `rank != 0`, `rank > 0`, `rank >= 1`."""
    above = isinstance(test.ops[0], (ast.Gt, ast.GtE)) and isinstance(test.comparators[0], ast.Constant)
    return above or isinstance(test.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot))
