"""Which variables the loops around a line carry from one turn to the next, from the source.

A loop that gets anywhere leaves something for its next turn: `total += x`, `n = n // 2`, `self.found = y`. A variable that each
turn sets before it reads it, such as a random choice, leaves nothing; nor does a count that is compared with nothing, such as
one of attempts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from mpmon.model import BY_CLOCK, CLOCKS, SOURCE_NOT_KNOWN
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.sources import FUNCTION, LOOP, Place, running_sources, spans

MOST_NAMES, LONGEST_NAME = 64, 100

MOST_NODES = 20_000
"""Of a loop's syntax tree: a longer loop is generated, and reading it would take long."""


@may_hang
def carried(proc: Proc, pid: int, places: Sequence[Place]) -> dict[Place, tuple[str, ...]]:
    """What the loops around each of these places carry: variables, and attributes with a dot before them; `BY_CLOCK` if one of
    them reads a clock. Places that are in no loop of their function are left out.

    Args:
        proc: Where processes are.
        pid: The process that runs it; files are looked up as it sees them.
        places: Files by their whole paths, with a line each.
    """
    sources = running_sources(proc, pid, (file for file, _ in places))
    found = {
        place: _carried(sources[place[0]].tree, place[1]) if place[0] in sources else SOURCE_NOT_KNOWN
        for place in places
    }
    return {place: names for place, names in found.items() if names is not None}


def _carried(tree: ast.Module, line: int) -> tuple[str, ...] | None:
    loops = _loops_around(tree, line)
    if not loops:
        return None
    if sum(1 for _ in ast.walk(loops[0])) > MOST_NODES:
        return SOURCE_NOT_KNOWN
    names = dict.fromkeys(name for loop in loops for name in _left_for_next_turn(loop))
    counts = _only_counted(loops[0]) - set(_compared(loops[0]))
    if any(_calls_clock(node) for node in _inside(loops[0])):
        names[BY_CLOCK] = None
    kept = (name for name in names if name not in counts and len(name) <= LONGEST_NAME)
    return tuple(islice(kept, MOST_NAMES))


def _loops_around(tree: ast.Module, line: int) -> list[ast.stmt]:
    """The loops of the innermost function around a line that are around it; outermost first."""
    found: list[ast.stmt] = []
    inside: Iterable[ast.AST] = ast.iter_child_nodes(tree)
    while around := next((node for node in inside if spans(node, line)), None):
        if isinstance(around, FUNCTION):
            found = []
        elif isinstance(around, LOOP):
            found.append(around)
        inside = ast.iter_child_nodes(around)
    return found


def _left_for_next_turn(loop: ast.stmt) -> Iterator[str]:
    """What the loop sets or may change, and reads in a turn before it sets it; and all attributes that it sets."""
    early = set(_read_early(_turn(loop), set()))
    for node in _inside(loop):
        yield from (name for name in _changed(node) if name in early)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield f".{node.attr}"


def _changed(node: ast.AST) -> Iterator[str]:
    """The variables that are set here, or whose objects a call may change."""
    if isinstance(node, ast.Call):
        given = [*node.args, *(row.value for row in node.keywords)]
        given += [node.func] if isinstance(node.func, ast.Attribute) else []
        yield from (part.id for row in given for part in ast.walk(row) if isinstance(part, ast.Name))
    elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _turn(loop: ast.stmt) -> list[ast.AST]:
    """The parts of one turn, in their order."""
    body = list[ast.AST](getattr(loop, "body", ()))
    return [loop.test, *body] if isinstance(loop, ast.While) else body


def _read_early(parts: Sequence[ast.AST], known: set[str]) -> Iterator[str]:
    """The names that are read before they are certainly set; `known` are those that are set by now, and grows."""
    for part in parts:
        if isinstance(part, ast.If):
            yield from _read(part.test, known)
            branches = set(known), set(known)
            yield from _read_early(part.body, branches[0])
            yield from _read_early(part.orelse, branches[1])
            known |= branches[0] & branches[1]
        elif isinstance(part, (*LOOP, ast.Try)):
            yield from _read_within(part, known)
        elif isinstance(part, (ast.With, ast.AsyncWith)):
            for item in part.items:
                yield from _read(item, known)
                known |= _set_by(item)
            yield from _read_early(part.body, known)
        else:
            yield from _read(part, known)
            known |= _set_by(part)


def _read_within(part: ast.AST, known: set[str]) -> Iterator[str]:
    """The same for a loop or a `try`, whose parts may not be reached."""
    heads = [node for name in ("test", "iter") if isinstance(node := getattr(part, name, None), ast.AST)]
    for head in heads:
        yield from _read(head, known)
    target = getattr(part, "target", None)
    begun = {*known, *(_set_by(target) if isinstance(target, ast.AST) else ())}
    bodies = [getattr(part, name, ()) for name in ("body", "orelse", "finalbody")]
    bodies += [handler.body for handler in getattr(part, "handlers", ())]
    for body in bodies:
        yield from _read_early(body, set(begun))


def _read(part: ast.AST, known: set[str]) -> Iterator[str]:
    for node in _inside(part):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known:
            yield node.id
    if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name) and part.target.id not in known:
        yield part.target.id


def _set_by(part: ast.AST) -> set[str]:
    return {node.id for node in _inside(part) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _inside(part: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[ast.AST]:
    """A node and those in it, without the functions that are made there, and without the variables of comprehensions."""
    if isinstance(part, _COMPREHENSION):
        own = (node.id for row in part.generators for node in ast.walk(row.target) if isinstance(node, ast.Name))
        bound |= frozenset(own)
    if not (isinstance(part, ast.Name) and part.id in bound):
        yield part
    for node in ast.iter_child_nodes(part):
        if not isinstance(node, FUNCTION):
            yield from _inside(node, bound)


_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _only_counted(loop: ast.stmt) -> set[str]:
    """What the loop sets by nothing but `x += 1` and the like."""
    nodes = list(_inside(loop))
    counted = {
        id(node.target): _name(node.target) for node in nodes if isinstance(node, ast.AugAssign) and _is_step(node)
    }
    others = {
        _name(node)
        for node in nodes
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store) and id(node) not in counted
    }
    return set(counted.values()) - others


def _is_step(node: ast.AugAssign) -> bool:
    return isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.value, ast.Constant)


def _compared(loop: ast.stmt) -> Iterator[str]:
    """What the loop compares with something, or tests before a turn."""
    for node in _inside(loop):
        tests = [node] if isinstance(node, ast.Compare) else [node.test] if isinstance(node, ast.While) else []
        yield from (name for test in tests for part in _inside(test) if (name := _name(part)))


def _calls_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node.func).removeprefix(".") in CLOCKS


def _name(node: ast.AST) -> str:
    """Of a variable, or of an attribute, with a dot before it."""
    return f".{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "")
