"""Whether a loop only polls: from turn to turn it looks, sleeps and keeps books, and nothing of that ends it.

Its books are whatever it counts, logs or notes the time of, for itself or for those who look whether it lives. They change in
each turn, and would be taken for progress, but what the loop is left for depends on none of them: `while not ready(): tries += 1`
ends once others have made it ready, however often it tries. A loop that takes something out of a list, or waits until a time has
come, depends on what it does itself. Two attributes of one name are taken for the same, whatever objects have them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mpmon.model import CLOCKS
from mpmon.probes.carried import LONGEST_NAME, left_for_next_turn
from mpmon.probes.loop_calls import CHANGES, call_name, is_work, takes, with_callees
from mpmon.probes.sources import FUNCTION, Functions, spans

_LEAVES = (ast.Break, ast.Return, ast.Raise)
_SUSPENDS = (ast.Await, ast.Yield, ast.YieldFrom)
_READS = frozenset({"read", "readline", "readlines"})
_SIGNS = frozenset({"clear", "set"})
"""Methods of events, which take no arguments; functions of these names do nothing for others."""

_BY_ITSELF = CLOCKS | {"random", "uniform"}
"""Functions whose answers change by themselves."""

_TAKES_OUT = frozenset({"pop", "popitem", "popleft", "remove"})
"""Methods that take something out of a container that others may fill."""

_WRITES = frozenset({"makedirs", "mkdir", "open", "rename", "replace", "touch", "utime", "write_bytes", "write_text"})
"""Functions and methods that name a file which they may write."""

_FOR_WRITING = frozenset("awx+")
"""Of modes of open()."""

_TELLS = frozenset({"post", "publish", "put", "put_nowait", "send", "send_bytes", "sendall", "sendto"})
"""Methods that send something to others."""


def polls_for(loop: ast.While, line: int, functions: Functions) -> tuple[str, ...] | None:
    """Which variables and attributes lead to what a loop that waits at this line asks for, where it calls nothing else that works
    or takes, and what leads out of it depends on nothing that it changes, so that all else is its books; `None` for any other
    loop. Whatever it calls to know whether it is over, it asks.
    """
    others = _others(line, functions)
    nodes, own, ways = with_callees(loop, others), list(ast.walk(loop)), list(_ways_out(loop))
    asked = _asked(ways, own, others)
    questions = {id(node) for node in asked}
    if reads_on(nodes) or any(_does_more(node, line, others, asked=id(node) in questions) for node in nodes):
        return None
    if not ways or any(call_name(node) in _BY_ITSELF or any(_altered(node)) for node in asked):
        return None
    names = {name for node in asked for name in _names(node)}
    fits = all(len(name) <= LONGEST_NAME for name in names)
    if not fits or not _changed(loop, own, nodes, others).isdisjoint(names):
        return None
    return tuple(sorted(_variables(names, nodes) | _attributes(asked)))


def _variables(names: set[str], nodes: list[ast.AST]) -> set[str]:
    """Without attributes, and without what the loop writes its books into, itself or by a method of the same object."""
    written = (node.value for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load))
    into = {name for owner in written for name in _names_in(owner)}
    return {name for name in names if not name.startswith(".")} - into


def _attributes(nodes: list[ast.AST]) -> set[str]:
    """Without methods that are called, and the module of paths."""
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    rows = (node for node in nodes if isinstance(node, ast.Attribute) and id(node) not in called)
    return {f".{row.attr}" for row in rows if not (isinstance(row.value, ast.Name) and row.value.id == "os")}


def keeps_books(loop: ast.While, line: int, functions: Functions) -> bool:
    """Whether a loop that pauses at this line is never left, and only looks, keeps books, and tells others of them."""
    others = _others(line, functions)
    nodes = with_callees(loop, others)
    if not isinstance(loop.test, ast.Constant) or any(isinstance(node, _LEAVES) for node in _of_its_own(loop.body)):
        return False
    rest = [node for node in nodes if call_name(node) not in _TELLS]
    return not reads_on(nodes) and not any(_does_more(node, line, others) or _gets(node) for node in rest)


def _gets(node: ast.AST) -> bool:
    """It may take something out of a queue: `get()`, `get(True, 1)`, `get(timeout=1)`, unlike `get("key", 0)` of a dictionary."""
    if not isinstance(node, ast.Call) or call_name(node) != "get":
        return False
    first = node.args[0] if node.args else None
    return first is None or (isinstance(first, ast.Constant) and not isinstance(first.value, str))


def tells(loop: ast.While, line: int, functions: Functions) -> tuple[str, ...]:
    """What a loop sends something over: the variables and attributes whose methods do so."""
    nodes = with_callees(loop, _others(line, functions))
    methods = (node.func for node in nodes if isinstance(node, ast.Call) and call_name(node) in _TELLS)
    found = {name for method in methods if isinstance(method, ast.Attribute) for name in _root(method.value)}
    return tuple(sorted(name for name in found if len(name) <= LONGEST_NAME))


def books(loop: ast.While, line: int, functions: Functions) -> tuple[str, ...]:
    """What a loop changes that others may ask for: attributes, what items are in, variables of others, and what names the files
    that it writes; without what it only sets to the time.
    """
    nodes = with_callees(loop, _others(line, functions))
    stamped = {
        id(target)
        for node in nodes
        if isinstance(node, ast.Assign) and any(call_name(row) in CLOCKS for row in ast.walk(node.value))
        for target in node.targets
    }
    found = {name for node in nodes if id(node) not in stamped for name in (*_altered(node), *_written(node))}
    found.update(name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names)
    return tuple(sorted(name for name in found if len(name) <= LONGEST_NAME))


def _written(node: ast.AST) -> Iterator[str]:
    """The variables and attributes that name the file which a call opens for writing, or writes."""
    name = call_name(node)
    if not isinstance(node, ast.Call) or name not in _WRITES:
        return
    given = [*node.args, *(row.value for row in node.keywords)]
    modes = (row.value for row in given if isinstance(row, ast.Constant))
    if name != "open" or any(isinstance(mode, str) and not _FOR_WRITING.isdisjoint(mode) for mode in modes):
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        parts = [part for row in (*owner, *given) for part in ast.walk(row)]
        yield from (part.id for part in parts if isinstance(part, ast.Name))
        yield from _attributes(parts)


def _others(line: int, functions: Functions) -> Functions:
    """A method of the same name as one that a loop calls may be the very function that the loop is in."""
    return {name: row for name, row in functions.items() if not spans(row, line)}


def _does_more(node: ast.AST, line: int, functions: Functions, *, asked: bool = False) -> bool:
    """Than to wait, look, log and keep books. A call of something unknown only looks where what is asked for depends on it."""
    signals = (
        isinstance(node, ast.Call)
        and not node.args
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _SIGNS
    )
    if (isinstance(node, _SUSPENDS) and not _sleeps_here(node, line)) or signals:
        return True
    waits = call_name(node) in ("acquire", "get", "result", "select") and spans(node, line)
    works = is_work(node, functions) and not asked
    return (works or takes(node) or call_name(node) in _TAKES_OUT) and not waits


def _sleeps_here(node: ast.AST, line: int) -> bool:
    """A task waits in it at the line."""
    return isinstance(node, ast.Await) and spans(node, line)


def reads_on(nodes: list[ast.AST]) -> bool:
    """These nodes read from a file that they do not open."""
    opened = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    reads = (node.func for node in nodes if isinstance(node, ast.Call) and call_name(node) in _READS)
    read = {name for method in reads if isinstance(method, ast.Attribute) for name in _root(method.value)}
    return not read <= opened


def _ways_out(loop: ast.While) -> Iterator[ast.AST]:
    """What is tested before the loop is left, or tried; nothing of one that is left in no other way, or never."""
    if not isinstance(loop.test, ast.Constant):
        yield loop.test
    for node in _of_its_own(loop.body):
        if isinstance(node, ast.If) and any(isinstance(row, _LEAVES) for row in _of_its_own([node])):
            yield node.test
        elif isinstance(node, ast.Try) and any(isinstance(row, _LEAVES) for row in (*node.body, *node.orelse)):
            yield from node.body


def _of_its_own(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a loop's body, without those of functions that are made there."""
    for node in body:
        yield node
        if not isinstance(node, FUNCTION):
            yield from _of_its_own(ast.iter_child_nodes(node))


def _asked(ways: list[ast.AST], own: list[ast.AST], functions: Functions) -> list[ast.AST]:
    """All nodes that what is tested depends on: of the tests, of the functions of the file that they call, and of what the loop
    binds their variables to.
    """
    pairs = [pair for node in own for pair in _bound(node)]
    found, asked, names = list(ways), [node for way in ways for node in with_callees(way, functions)], set[str]()
    while more := {name for node in asked for name in _names(node)} - names:
        names |= more
        values = [value for target, value in pairs if value not in found and not names.isdisjoint(_names_in(target))]
        found += values
        asked += [node for value in values for node in with_callees(value, functions)]
    return asked


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _changed(loop: ast.While, own: list[ast.AST], nodes: list[ast.AST], functions: Functions) -> set[str]:
    """What may differ in the next turn: variables that the loop carries on, attributes, items, and the variables of others."""
    set_again = {node.id for node in own if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    found = set_again.intersection(left_for_next_turn(loop)).union(*map(_altered, nodes))
    found.update(name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names)
    ours = {id(node) for node in own}
    if any(name for node in nodes if id(node) not in ours for name in _altered(node) if not name.startswith(".")):
        # A function of the file may change what is passed to it, under another name.
        calls = (node for node in own if isinstance(node, ast.Call) and call_name(node) in functions)
        found.update(name for call in calls for given in call.args for name in _names_in(given))
    return found


def _altered(node: ast.AST) -> Iterator[str]:
    """What a node changes in an object: an attribute or an item that it sets, or what it calls a method of that changes it."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        yield from _root(node)
    elif isinstance(node, ast.Call) and call_name(node) in CHANGES and isinstance(node.func, ast.Attribute):
        yield from _root(node.func.value)


def _names_in(part: ast.AST) -> Iterator[str]:
    return (name for node in ast.walk(part) for name in _names(node))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield from _root(node)


def _root(node: ast.expr) -> Iterator[str]:
    """A variable, or an attribute with a dot before it; of an item, that of what it is in."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield f".{node.attr}"
    elif isinstance(node, ast.Subscript):
        yield from _root(node.value)
