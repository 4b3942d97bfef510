"""What a polling loop tests, from its source: for example `while child.poll() is None: time.sleep(1)`.

The frames of such a loop show nothing but a sleep. Its source says what has to become true before it ends: the test of
the loop, and those before a `break` or a `return` inside it; or, where it sleeps only if it got nothing, what it asked
for: `try: item = tasks.get_nowait()`, `except Empty: time.sleep(1)`. It also says whether the loop does something after so many
attempts: what it compares with a limit, other than to log; whether it does nothing for others: only sleeps, or only looks; and
whether it has other work where a wait with a time limit has brought nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mpmon.model import BY_CLOCK, CLOCKS
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.loop_calls import (
    ASKS,
    LOGS,
    LOOKS,
    QUIET,
    UNKNOWN,
    call_name,
    call_owner,
    is_work,
    logs,
    only_logs,
    takes,
    with_callees,
)
from mpmon.probes.polling import books, keeps_books, polls_for, reads_on, tells
from mpmon.probes.sources import FUNCTION, LOOP, Functions, Place, Source, running_sources, spans
from mpmon.probes.vain_turns import in_vain

_LOOK_THROUGH = frozenset({"all", "any", "bool", "len", "list", "set", "sum", "tuple"})
"""Built-in functions that test a collection by testing its parts."""


class Loop(NamedTuple):
    """A `while` loop."""

    tests: tuple[str, ...]
    """What it tests before it is left, or asks for before it sleeps: names of methods, and of attributes with a dot before
    them.
    """
    acts: bool
    """Each turn calls something besides what sleeps, counts, logs or asks others of the job."""
    only_sleeps: bool
    """It is never left, and does nothing but sleep, count and log."""
    only_looks: bool
    """It ends once something is there, and does nothing but look for it, sleep, count and log."""
    limits: tuple[str, ...]
    """See `Stack.limits`; what only leads to a message is left out."""
    other_work: bool = False
    """See `Stack.other_work`."""
    only_reports: bool = False
    """It is never left, and does nothing at all but sleep, look, count and log, whatever it finds."""
    polls_for: tuple[str, ...] | None = None
    """See `Stack.polls_for`."""
    keeps_books: bool = False
    """See `Stack.keeps_books`."""
    books: tuple[str, ...] = ()
    """See `Stack.books`."""
    tells: tuple[str, ...] = ()
    """See `Stack.tells`."""


@may_hang
def loops_around(proc: Proc, pid: int, places: Sequence[Place]) -> dict[Place, Loop]:
    """The innermost loop around each of these places. Places without a loop, or without an unchanged source since the
    process began, are left out.

    Args:
        proc: Where processes are.
        pid: The process that runs it; files are looked up as it sees them.
        places: Files by their whole paths, with a line each.
    """
    sources = running_sources(proc, pid, (file for file, _ in places))
    loops = ((place, _loop(sources[place[0]], place[1])) for place in places if place[0] in sources)
    return {place: loop for place, loop in loops if loop}


_loops: WeakKeyDictionary[Source, dict[int, Loop | None]] = WeakKeyDictionary()
"""The loops found so far, by line: many processes stand at the same lines."""


def _loop(source: Source, line: int) -> Loop | None:
    """The innermost loop around a line."""
    known = _loops.setdefault(source, {})
    if line not in known:
        found = _loop_around(source.tree, line)
        known[line] = _described(found, line, source) if found else None
    return known[line]


def _described(loop: ast.While, line: int, source: Source) -> Loop:
    functions = source.functions_at(line)
    tests, limits = _asked_in_vain(loop.body, line) or set(_tests(loop)), set(_limits(loop, functions))
    acts = _acts(loop, functions)
    only_sleeps = not (tests or acts or _asks(loop, functions))
    only_looks = bool(tests) and _only_looks(loop, functions)
    other_work = _has_other_work(loop, line, functions)
    only_reports = not tests and _only_reports(loop, line, functions)
    wanted = polls_for(loop, line, functions)
    wanted = None if wanted is None else _variables(wanted, source)
    changed = _variables(books(loop, line, functions), source)
    return Loop(
        tuple(sorted(tests)), acts, only_sleeps, only_looks, tuple(sorted(limits)), other_work, only_reports,
        wanted, keeps_books(loop, line, functions), changed, tells(loop, line, functions),
    )  # fmt: skip


def _variables(names: tuple[str, ...], source: Source) -> tuple[str, ...]:
    """Without functions, classes and modules."""
    return tuple(name for name in names if not source.defines(name))


_EXITS = frozenset({"_exit", "abort", "exit", "quit"})
"""Functions that end the program: of os, sys and builtins."""


def _loop_around(tree: ast.Module, line: int) -> ast.While | None:
    """The innermost loop of the innermost function around a line, if only its tests can end it."""
    found: ast.AST | None = None
    inside: Iterable[ast.AST] = ast.iter_child_nodes(tree)
    while around := next((node for node in inside if spans(node, line)), None):
        if isinstance(around, LOOP) and not _is_evaluated_before(around, line):
            found = _as_endless(around) or around
        elif isinstance(around, FUNCTION):
            found = None
        inside = ast.iter_child_nodes(around)
    return found if isinstance(found, ast.While) else None


_ENDLESS = frozenset({"count", "cycle"})
"""Iterators of itertools that never end."""


def _as_endless(loop: ast.AST) -> ast.While | None:
    """`for turn in itertools.count()`, as `while True` that counts."""
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name) or call_name(loop.iter) not in _ENDLESS:
        return None
    counts = ast.copy_location(ast.AugAssign(loop.target, ast.Add(), ast.Constant(value=1)), loop.target)
    return ast.copy_location(ast.While(test=ast.Constant(value=True), body=[counts, *loop.body], orelse=[]), loop)


def _is_evaluated_before(loop: ast.While | ast.For | ast.AsyncFor, line: int) -> bool:
    """The line is that of what a `for` goes through, as in `for pipe in wait(pipes, 1)`."""
    return not isinstance(loop, ast.While) and spans(loop.iter, line)


def _tests(loop: ast.While) -> Iterator[str]:
    parts = (row for row in ast.walk(loop.test) if isinstance(row, ast.Compare) and _stays_past(row, loop))
    past = {name for row in parts for name in _asked(row)} & CLOCKS
    yield from (name for name in _asked(loop.test) if name not in past)
    yield from _ways_out(loop.body)


def _stays_past(node: ast.AST, loop: ast.While) -> bool:
    """The loop goes on while a time has passed, as in `while time.monotonic() > lease.until`: no clock ends that."""
    parts = loop.test.values if isinstance(loop.test, ast.BoolOp) and isinstance(loop.test.op, ast.And) else [loop.test]
    if not isinstance(node, ast.Compare) or node not in parts or len(node.comparators) != 1:
        return False
    later, sooner = (ast.Gt, ast.GtE), (ast.Lt, ast.LtE)
    return (isinstance(node.ops[0], later) and call_name(node.left) in CLOCKS) or (
        isinstance(node.ops[0], sooner) and call_name(node.comparators[0]) in CLOCKS
    )


def _asked_in_vain(body: Sequence[ast.stmt], line: int) -> set[str]:
    """What others of the job were asked for before this line, where the loop only waits if the answer was none: in the body of
    the `try` whose handler has the line, or in the test of the `if`. Empty where it does more than wait there, or asks for
    anything else.
    """
    around = next((node for node in body if spans(node, line)), None)
    if isinstance(around, ast.With):
        return _asked_in_vain(around.body, line)
    if isinstance(around, ast.If):
        parts = [(around.body, _asked(around.test)), (around.orelse, iter(()))]
    elif isinstance(around, ast.Try):
        calls = (call for row in around.body for call in ast.walk(row) if isinstance(call, ast.Call))
        asked = (name for call in calls for name in _asked_by_call(call))
        parts = [(around.body, iter(())), (around.orelse, iter(()))]
        parts += [(handler.body, asked) for handler in around.handlers]
    else:
        return set()
    branch, asked = next(
        ((rows, names) for rows, names in parts if any(spans(row, line) for row in rows)), ([], iter(()))
    )
    if inner := _asked_in_vain(branch, line):
        return inner
    found = set(asked)
    return found if found <= ASKS and all(_waits(row, line) for row in branch) else set()


def _waits(node: ast.stmt, line: int) -> bool:
    """The statement at the line, or one that only counts, logs or goes on with the loop."""
    counts = isinstance(node, (ast.Assign, ast.AugAssign)) and not any(
        isinstance(row, ast.Call) for row in ast.walk(node)
    )
    goes_on = isinstance(node, (ast.Continue, ast.Pass))
    return spans(node, line) or counts or goes_on or logs(node) or (isinstance(node, ast.If) and only_logs(node))


def _ways_out(body: Iterable[ast.AST]) -> Iterator[str]:
    """What is tested before the loop is left from inside."""
    for node in body:
        if _is_exit(node):
            yield UNKNOWN
        elif isinstance(node, ast.If):
            branches = (*node.body, *node.orelse)
            ways = list(_ways_out(branches))
            if ways:
                yield from _asked(node.test)
                # A branch that only leaves adds nothing to what was tested before it.
                yield from (way for way in ways if way != UNKNOWN or not _leaves_at_once(node))
        elif isinstance(node, LOOP):
            yield from (UNKNOWN for inner in ast.walk(node) if isinstance(inner, (ast.Return, ast.Raise)))
        elif not isinstance(node, FUNCTION):
            yield from _ways_out(ast.iter_child_nodes(node))


def _leaves_at_once(node: ast.If) -> bool:
    """The statement that leaves the loop is directly in its branches."""
    deeper = (inner for row in (*node.body, *node.orelse) if not _is_exit(row) for inner in ast.walk(row))
    return not any(_is_exit(inner) for inner in deeper)


def _is_exit(node: ast.AST) -> bool:
    """A statement that leaves the loop, if need be by ending the program."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        return getattr(called, "attr", None) in _EXITS or getattr(called, "id", None) in _EXITS
    return isinstance(node, (ast.Break, ast.Return, ast.Raise))


def _asked(test: ast.expr) -> Iterator[str]:
    """The names of what is tested; constants test nothing."""
    if isinstance(test, ast.Call):
        yield from _asked_by_call(test)
    elif isinstance(test, ast.Attribute):
        yield f".{test.attr}"
    elif isinstance(test, (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.GeneratorExp, ast.ListComp, ast.SetComp)):
        for part in _parts(test):
            yield from _asked(part)
    elif not isinstance(test, ast.Constant):
        yield UNKNOWN


def _asked_by_call(call: ast.Call) -> Iterator[str]:
    if isinstance(call.func, ast.Attribute):
        yield "get_nowait" if call.func.attr == "get" and _does_not_block(call) else call.func.attr
    elif isinstance(call.func, ast.Name) and call.func.id in _LOOK_THROUGH and len(call.args) == 1:
        yield from _asked(call.args[0])
    else:
        yield UNKNOWN


def _does_not_block(call: ast.Call) -> bool:
    """`get(False)` or `get(block=False)`."""
    given = [*call.args[:1], *(row.value for row in call.keywords if row.arg == "block")]
    return any(isinstance(value, ast.Constant) and value.value is False for value in given)


def _acts(loop: ast.While, functions: Functions) -> bool:
    calls = (call_name(node) for part in _each_turn(loop.body) for node in with_callees(part, functions))
    return any(name and name not in functions and name not in ASKS | QUIET | LOGS | CLOCKS for name in calls)


def _asks(loop: ast.While, functions: Functions) -> bool:
    """Others of the job are asked for something, in whatever turn."""
    return any(call_name(node) in ASKS for node in with_callees(loop, functions))


def _only_looks(loop: ast.While, functions: Functions) -> bool:
    parts = [loop.test, *_unless_found(loop.body)]
    nodes = [node for part in parts for node in with_callees(part, functions)]
    return all(_is_look(node, functions) for node in nodes) and not reads_on(nodes)


def _unless_found(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The parts of a loop's body that are run as long as nothing was found, in turns that are not counted out for more."""
    for node in body:
        if isinstance(node, ast.If):
            yield node.test
            rare = any(_with_number(row) for row in ast.walk(node.test) if isinstance(row, ast.Compare))
            yield from () if rare or any(map(_is_exit, node.body)) else _unless_found(node.body)
            yield from _unless_found(node.orelse)
        elif isinstance(node, ast.Try):
            handled = [row for handler in node.handlers for row in handler.body]
            yield from _unless_found([*node.body, *handled, *node.orelse, *node.finalbody])
        else:
            yield node


def _is_look(node: ast.AST, functions: Functions) -> bool:
    """It changes nothing that another thread or process could see."""
    if isinstance(node, ast.Call):
        name = call_name(node)
        tests_pid = name == "kill" and isinstance(last := (node.args or [None])[-1], ast.Constant) and last.value == 0
        return tests_pid or name in functions or name in LOOKS
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        counts = isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute)
        return counts or all(isinstance(row, (ast.Name, ast.Tuple)) for row in targets)
    return not isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.Delete))


def _each_turn(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The parts of a loop's body that are also run when nobody of the job has brought anything."""
    for node in body:
        asked = {name for call in ast.walk(node) if isinstance(call, ast.Call) for name in _asked_by_call(call)} & ASKS
        if isinstance(node, ast.If) and asked.intersection(_asked(node.test)):
            yield node.test
            yield from _each_turn(node.orelse)
            if any(isinstance(row, ast.Continue) for row in node.body):
                return
        elif isinstance(node, ast.Try) and asked:
            yield from (row for handler in node.handlers for row in _each_turn(handler.body))
            if any(isinstance(row, ast.Continue) for handler in node.handlers for row in handler.body):
                return
        else:
            yield node


def _has_other_work(loop: ast.While, line: int, functions: Functions) -> bool:
    """Work on the very object that the loop waits for, such as `barrier.reset()`, is part of the wait."""
    waits = {call_owner(node) for node in ast.walk(loop) if spans(node, line)} - {""}
    nodes = (node for part in in_vain(loop.body, line, _comes_later) for node in with_callees(part, functions))
    return any(is_work(node, functions) for node in nodes if call_owner(node) not in waits)


def _only_reports(loop: ast.While, line: int, functions: Functions) -> bool:
    nodes = with_callees(loop, functions)
    others = any(takes(node) or (isinstance(node, ast.Await) and not spans(node, line)) for node in nodes)
    return not others and not any(is_work(node, functions) for node in nodes)


def _comes_later(test: ast.expr) -> bool:
    """A test that others of the job have done something, or that enough time or turns have passed."""
    limited = any(isinstance(node, ast.Compare) and isinstance(node.ops[0], _ORDERS) for node in ast.walk(test))
    return limited or not _ASKED_FOR.isdisjoint(_asked(test))


_ASKED_FOR = ASKS | {".exitcode", ".returncode"}
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_COMPARES = (*_ORDERS, ast.Eq)


def _limits(loop: ast.While, functions: Functions) -> Iterator[str]:
    """Variables and attributes that are compared, here or in a function of the file that is called."""
    nodes = with_callees(loop, functions)
    left_out = (node for node in nodes if (isinstance(node, ast.If) and only_logs(node)) or _stays_past(node, loop))
    quiet = {id(inner) for node in left_out for inner in ast.walk(node)}
    for node in (node for node in nodes if id(node) not in quiet):
        if isinstance(node, ast.Compare) and any(isinstance(op, _COMPARES) for op in node.ops):
            number = _with_number(node)
            yield from (number,) if number else (name for part in ast.walk(node) if (name := _name(part)))
        elif isinstance(node, ast.Call) and call_name(node) in CLOCKS:
            yield BY_CLOCK


def _with_number(node: ast.Compare) -> str:
    """The variable and the whole number that it is compared with, and with nothing else; else empty."""
    sides = [node.left, *node.comparators]
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    numbers = [side.value for side in sides if isinstance(side, ast.Constant) and type(side.value) is int]
    return f"{names[0]} {numbers[0]}" if len(sides) == 2 and names and numbers else ""


def _name(node: ast.AST) -> str:
    """Of a variable, or of an attribute, with a dot before it."""
    return f".{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _parts(
    test: ast.BoolOp | ast.UnaryOp | ast.Compare | ast.GeneratorExp | ast.ListComp | ast.SetComp,
) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp):
        yield from test.values
    elif isinstance(test, ast.UnaryOp):
        yield test.operand
    elif isinstance(test, ast.Compare):
        yield from (test.left, *test.comparators)
    else:
        # `[p for p in processes if p.is_alive()]` tests in its condition.
        conditions = [row for generator in test.generators for row in generator.ifs]
        yield from conditions if isinstance(test.elt, ast.Name) and conditions else (test.elt, *conditions)
