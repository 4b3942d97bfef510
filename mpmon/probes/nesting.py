"""What is around a line in its function, from its source: the loops it is in, and what was tested to get there.

Ranks run the same program. Where two of them are at different lines of it, this tells what lines alone do not: that one is in
an inner loop which the other has left, or that only one of them gets there: `if rank == 0: dist.barrier()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.sources import FUNCTION, LOOP, Place, Source, bindings, pairs, running_sources, spans

MOST_NAMES, LONGEST_NAME = 64, 100

NOT, FIXED = "not ", "fixed "

FURTHEST = 3
"""Most assignments followed from a name: `main` is `me == 0`, `me` is `args.rank`, ..."""


class Around(NamedTuple):
    """What is around a line; outermost first."""

    loops: tuple[str, ...] = ()
    """`for 12`, `async for 20`, `while 30`: with the line at which each begins."""
    tests: tuple[str, ...] = ()
    """Names of the variables, attributes and functions that the `if` statements around it test, and those before it that
    leave; `not rank` if it is reached only where the test fails, or where the variable is not the value it is compared with.
    Of a name that the file binds only once, also what it is bound to: with `main = rank == 0`, `if main` tests the rank.
    `fixed chief`, if the line is in the body of an `if` in a loop, and what that tests stays the same in all turns but for their
    number: ranks in the same turn differ in it only if they always do.
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
    found, rows = Around(), _rows_with(source.tree, line)
    path: list[ast.stmt] = []
    while rows:
        inside = next(row for row in rows if spans(row, line))
        path = [] if isinstance(inside, FUNCTION) else [*path, inside]
        before = [name for row in rows[: rows.index(inside)] for name in _passed(row)]
        found = _into(inside, line, found._replace(tests=(*found.tests, *before)))
        rows = _rows_with(inside, line)
    tests = (*found.tests, *_meant(source.bound_once, found.tests), *_fixed(source, path, line))
    names = (name for name in dict.fromkeys(tests) if len(name) <= LONGEST_NAME)
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
                yield name if same else NOT + name


def _meant(bound: Mapping[str, ast.expr], tests: Sequence[str], far: int = FURTHEST) -> Iterator[str]:
    """What is tested with those names whose only value is known: names, and the keys of what is looked up, as in
    `os.environ["RANK"]`.
    """
    for test in tests if far else ():
        name = test.removeprefix(NOT)
        value = bound.get(name)
        if value is None:
            continue
        holds = name == test
        found = [*_tested(value, holds=holds), *(key if holds else NOT + key for key in _keys(value))]
        yield from found
        yield from _meant(bound, found, far - 1)


def _keys(value: ast.expr) -> Iterator[str]:
    for node in ast.walk(value):
        for key in (
            (node.slice,) if isinstance(node, ast.Subscript) else node.args if isinstance(node, ast.Call) else ()
        ):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value


def _fixed(source: Source, path: Sequence[ast.stmt], line: int) -> Iterator[str]:
    """What is tested in a loop, and is neither bound in the loop nor more than once elsewhere."""
    loop = next((row for row in path if isinstance(row, LOOP)), None)
    within = path[path.index(loop) :] if loop else ()
    bound = {name for node in ast.walk(loop) for name, _ in bindings(node)} if loop else set[str]()
    counts = {name for row in within for name in _counts(row)}
    for row in within:
        if isinstance(row, ast.If) and any(spans(one, line) for one in row.body) and not _calls(row.test):
            names = set(_last_names(row.test)) - counts
            if names and names.isdisjoint(bound) and all(_is_set_once(source, name, row.test) for name in names):
                yield from (FIXED + name for name in sorted(names))


def _calls(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(test))


def _counts(row: ast.stmt) -> Iterator[str]:
    """The number of the turn, in a loop that counts them."""
    if isinstance(row, ast.For) and isinstance(row.iter, ast.Call) and isinstance(row.iter.func, ast.Name):
        first = row.target.elts[0] if isinstance(row.target, ast.Tuple) else row.target
        if row.iter.func.id == ("enumerate" if isinstance(row.target, ast.Tuple) else "range"):
            yield from (name for name, _ in pairs(first, None))


def _last_names(test: ast.expr) -> Iterator[str]:
    """`chief` of `self.chief`, and each plain name."""
    owners = {id(node.value) for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    for node in ast.walk(test):
        if id(node) not in owners and isinstance(node, (ast.Name, ast.Attribute)):
            yield node.id if isinstance(node, ast.Name) else node.attr


def _is_set_once(source: Source, name: str, test: ast.expr) -> bool:
    """It is bound in a single place; or it is compared with a number, as that of a rank is that a function gets."""
    return name in source.bound_once or any(
        isinstance(node, ast.Compare) and name in _last_names(node.left) and _is_number(node.comparators[0])
        for node in ast.walk(test)
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _excludes(test: ast.Compare) -> bool:
    """It is true of all values but one or a few: `rank != 0`, `rank > 0`, `rank >= 1`."""
    above = isinstance(test.ops[0], (ast.Gt, ast.GtE)) and isinstance(test.comparators[0], ast.Constant)
    return above or isinstance(test.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot))
