"""Which variables the loops around a line carry from one turn to the next, from the source.

A loop that gets anywhere leaves something for its next turn: `total += x`, `n = n // 2`, `self.found = y`. A variable that each
turn sets before it reads it leaves nothing; nor does one that is set to nothing but random numbers, or a count that is read
nowhere, except to log it, such as one of attempts. What a loop may change without a local variable that leads there is not seen
(`UNSEEN`).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

from mpmon.model import BY_CLOCK, CLOCKS, ONLY_COUNTED, SOURCE_NOT_KNOWN, UNSEEN
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.loop_calls import call_name, is_quiet, with_callees
from mpmon.probes.sources import FUNCTION, LOOP, Functions, Place, Source, bindings, running_sources, spans

MOST_NAMES, LONGEST_NAME = 64, 100

MOST_NODES, MOST_LOOPS = 5_000, 6
"""Of a function's syntax tree, and loops in one another: a longer one is generated, and reading it would take long."""


@may_hang
def carried(proc: Proc, pid: int, places: Sequence[Place]) -> dict[Place, tuple[str, ...]]:
    """What the loops around each of these places carry, as in `Frame.carried`. Places that are in no loop of their function are
    left out.

    Args:
        proc: Where processes are.
        pid: The process that runs it; files are looked up as it sees them.
        places: Files by their whole paths, with a line each.
    """
    sources = running_sources(proc, pid, (file for file, _ in places))
    found = {
        place: _carried(sources[place[0]], place[1]) if place[0] in sources else SOURCE_NOT_KNOWN for place in places
    }
    return {place: names for place, names in found.items() if names is not None}


def _carried(source: Source, line: int) -> tuple[str, ...] | None:
    function, loops = _loops_around(source.tree, line)
    if not loops:
        return None
    if len(loops) > MOST_LOOPS or sum(1 for _ in ast.walk(function)) > MOST_NODES:
        return SOURCE_NOT_KNOWN
    changed = dict.fromkeys(name for loop in loops for name in left_for_next_turn(loop))
    counts, own = _only_counted(loops[0]), _locals(function)
    left_out = counts | _drawn(loops[0], source.functions)
    names = dict.fromkeys(name for name in changed if name in own and name not in left_out)
    names |= {f"{ONLY_COUNTED}{name}": None for name in counts if name.startswith(".")}
    others = (name for name in changed if name not in own)
    if not all(map(source.is_fixed, others)) or _changes_others(loops[0], source):
        names[UNSEEN] = None
    if any(_calls_clock(node) for node in _inside(loops[0])):
        names[BY_CLOCK] = None
    fits = len(names) <= MOST_NAMES and all(len(name) <= LONGEST_NAME for name in names)
    return tuple(names) if fits else SOURCE_NOT_KNOWN


def _locals(function: ast.AST) -> set[str]:
    """The local variables of a function, its parameters among them."""
    nodes = list(_inside(function))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    others = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    return (stored | given) - others


def _changes_others(loop: ast.stmt, source: Source) -> bool:
    """It calls a function of the file that sets variables of others: of the module, or of the function around it."""
    called = {node.func.id for node in _inside(loop) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    bodies = (source.functions[name] for name in called if name in source.functions)
    return any(isinstance(node, (ast.Global, ast.Nonlocal)) for body in bodies for node in ast.walk(body))


def _loops_around(tree: ast.Module, line: int) -> tuple[ast.AST, list[ast.stmt]]:
    """The innermost function around a line, and its loops that are around it; outermost first."""
    function: ast.AST = tree
    found: list[ast.stmt] = []
    inside: Iterable[ast.AST] = ast.iter_child_nodes(tree)
    while around := next((node for node in inside if spans(node, line)), None):
        if isinstance(around, FUNCTION):
            function, found = around, []
        elif isinstance(around, LOOP):
            found.append(around)
        inside = ast.iter_child_nodes(around)
    return function, found


def left_for_next_turn(loop: ast.stmt) -> Iterator[str]:
    """The variables that the loop sets, or whose objects it may change, and that a turn reads before it sets them."""
    early = set(_read_early(_turn(loop), set()))
    for node in _inside(loop):
        yield from (name for name in _changed(node) if name in early)


def _changed(node: ast.AST) -> Iterator[str]:
    """The variables that are set here, or whose objects a call may change."""
    if isinstance(node, ast.Call):
        given = [*node.args, *(row.value for row in node.keywords)]
        given += [node.func] if isinstance(node.func, ast.Attribute) else []
        yield from (name for row in given for name in _mentioned(row))
    elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _mentioned(part: ast.AST) -> Iterator[str]:
    """The variables in an expression, but those that its own comprehensions and lambdas bind."""
    nodes = list(ast.walk(part))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    targets = (row.target for node in nodes if isinstance(node, _COMPREHENSION) for row in node.generators)
    own.update(name for target in targets for name in _set_by(target))
    yield from (node.id for node in nodes if isinstance(node, ast.Name) and node.id not in own)


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
        elif isinstance(part, ast.Match):
            yield from _read(part, known)
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
    """What the loop sets by nothing but `x += 1` and the like, and reads nowhere, except to log it."""
    nodes = list(_inside(loop))
    counted = {
        id(node.target): _name(node.target) for node in nodes if isinstance(node, ast.AugAssign) and _is_step(node)
    }
    quiet = {id(inner) for node in nodes if is_quiet(node) for inner in ast.walk(node)}
    others = {
        _name(node)
        for node in nodes
        if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in counted and id(node) not in quiet
    }
    return {name for name in counted.values() if name} - others


def _drawn(loop: ast.stmt, functions: Functions) -> set[str]:
    """The variables that the loop sets to nothing but random numbers, which depend on no variable that it sets itself."""
    nodes = list(_inside(loop))
    values: dict[str, list[ast.expr | None]] = {}
    for node in nodes:
        for name, value in bindings(node):
            values.setdefault(name, []).append(value)
    return {name for name, rows in values.items() if all(row and _is_draw(row, functions, values) for row in rows)}


def _is_draw(value: ast.expr, functions: Functions, own: Collection[str]) -> bool:
    draws = any(call_name(node) in DRAWS for node in with_callees(value, functions))
    return draws and not any(name in own for name in _mentioned(value))


DRAWS = frozenset({
    "betavariate", "choice", "choices", "expovariate", "gauss", "getrandbits", "integers", "lognormvariate", "multinomial",
    "normal", "normalvariate", "permutation", "rand", "randbelow", "randint", "randn", "random", "randperm", "randrange",
    "standard_normal", "token_bytes", "triangular", "uniform",
})  # fmt: skip
"""Functions and methods that draw random numbers: of random, secrets, NumPy and torch."""


def _is_step(node: ast.AugAssign) -> bool:
    return isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.value, ast.Constant)


def _calls_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node.func).removeprefix(".") in CLOCKS


def _name(node: ast.AST) -> str:
    """Of a variable, or of an attribute, with a dot before it."""
    return f".{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "")
