"""What is around a line in its function, from its source: the loops it is in, and what was tested to get there.

Ranks run the same program. Where two of them are at different lines of it, this tells what lines alone do not: that one is in
an inner loop which the other has left, or that only one of them gets there: `if rank == 0: dist.barrier()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.sources import FUNCTION, Place, running_sources, spans

MOST_NAMES, LONGEST_NAME = 64, 100


class Around(NamedTuple):
    """What is around a line; outermost first."""

    loops: tuple[str, ...] = ()
    """`for 12`, `async for 20`, `while 30`: with the line at which each begins."""
    tests: tuple[str, ...] = ()
    """Names of the variables, attributes and functions that the `if` statements around it test, and those before it that
    leave; `not rank` if it is reached only where the test fails, or where the variable is not the value it is compared with.
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
    return {place: _around(sources[place[0]].tree, place[1]) for place in places if place[0] in sources}


def _around(tree: ast.Module, line: int) -> Around:
    found, rows = Around(), _rows_with(tree, line)
    while rows:
        inside = next(row for row in rows if spans(row, line))
        before = [name for row in rows[: rows.index(inside)] for name in _passed(row)]
        found = _into(inside, line, found._replace(tests=(*found.tests, *before)))
        rows = _rows_with(inside, line)
    names = (name for name in dict.fromkeys(found.tests) if len(name) <= LONGEST_NAME)
    return found._replace(tests=tuple(islice(names, MOST_NAMES)))


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


def _into(row: ast.stmt, line: int, found: Around) -> Around:
    """What is around the line, which is in a statement, as far as this statement tells."""
    if isinstance(row, FUNCTION):
        return Around()
    inside = any(spans(one, line) for one in getattr(row, "body", ()))
    if isinstance(row, ast.If):
        otherwise = any(spans(one, line) for one in row.orelse)
        return found._replace(tests=(*found.tests, *(_tested(row.test, holds=inside) if inside or otherwise else ())))
    if isinstance(row, ast.AsyncFor) and inside:
        return found._replace(loops=(*found.loops, f"async for {row.lineno}"))
    if isinstance(row, ast.For) and inside:
        return found._replace(loops=(*found.loops, f"for {row.lineno}"))
    if isinstance(row, ast.While) and (inside or spans(row.test, line)):
        return found._replace(loops=(*found.loops, f"while {row.lineno}"))
    return found


def _passed(row: ast.stmt) -> Iterator[str]:
    """What an `if` that leaves has tested, for those that got past it."""
    if isinstance(row, ast.If) and isinstance(row.body[-1], (ast.Return, ast.Continue, ast.Break, ast.Raise)):
        yield from _tested(row.test, holds=False)


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
                yield name if same else f"not {name}"


def _excludes(test: ast.Compare) -> bool:
    """It is true of all values but one or a few: `rank != 0`, `rank > 0`, `rank >= 1`."""
    above = isinstance(test.ops[0], (ast.Gt, ast.GtE)) and isinstance(test.comparators[0], ast.Constant)
    return above or isinstance(test.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot))
