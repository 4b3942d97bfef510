"""Where a chained asyncio future gets its result from: `run_coroutine_threadsafe` from a task, a task from the future
it awaits, `run_in_executor` from the executor's future, `shield` from what it shields, `gather` from all it gathers.

`_chain_future` of Lib/asyncio/futures.py adds the callback `_call_check_cancel` to the destination future, `shield` of
Lib/asyncio/tasks.py `_outer_done_callback`: closures that refer to the other future as `source` and `inner`. A future
written in C has its first callback in a field of its own, and the rest in a list of pairs (FutureObj of
Modules/_asynciomodule.c).
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import NAME_AT, Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.reachable import CELL_AT

TASK, FUTURE = b"_asyncio.Task", b"_asyncio.Future"
GATHERING = b"_GatheringFuture"
"""Classes of asyncio, the last one that of what `gather` returns."""

MOST_CHAINED = 16
"""Most futures of one chain that are followed."""

CALLBACKS, CLOSURE = frozenset({"_call_check_cancel", "_outer_done_callback"}), 72
"""The callbacks, and PyFunctionObject.func_closure."""

PENDING = 0
"""State of a future that is not done."""

FIRST_AT, OTHERS_AT = 24, 40
"""FutureObj.fut_callback0 and fut_callbacks."""

OF_EXECUTORS = b"Future"
"""The class of concurrent/futures/_base.py."""


def sources(objects: Objects, layout: Layout, future: int) -> Iterator[int]:
    """The future itself, then the futures its result comes from, nearest first, as far as they can be followed."""
    for _ in range(MOST_CHAINED):
        yield future
        try:
            following = _source(objects, layout, future)
        except Torn:
            return
        if not following:
            return
        future = following


def _source(objects: Objects, layout: Layout, future: int) -> int:
    """The next future in the chain; 0 for none. Raises `Torn`."""
    if TASK in objects.bases(future):
        return objects.word(future + layout.task_waiter) if layout.task_waiter else 0
    if GATHERING in objects.bases(future):
        return next(_unfinished(objects, layout, future), 0)
    return next(_chained_to(objects, future), 0)


def _unfinished(objects: Objects, layout: Layout, gathers: int) -> Iterator[int]:
    """Each of the gathered futures has to be done."""
    children = objects.attribute(gathers, b"_children")
    for child in objects.items(children) if children else ():
        if FUTURE in objects.bases(child) and objects.words("I", child + layout.future_state) == (PENDING,):
            yield child


def _chained_to(objects: Objects, future: int) -> Iterator[int]:
    """Futures in the closures of its callbacks, other than itself."""
    for callback in _callbacks(objects, future):
        if objects.type_name(callback) == b"function" and objects.text(objects.word(callback + NAME_AT)) in CALLBACKS:
            closure = objects.word(callback + CLOSURE)
            known = (objects.word(cell + CELL_AT) for cell in (objects.items(closure) if closure else ()))
            yield from (thing for thing in known if thing not in (0, future) and _is_future(objects, thing))


def _callbacks(objects: Objects, future: int) -> Iterator[int]:
    if FUTURE not in objects.bases(future):
        kept = objects.attribute(future, b"_done_callbacks")
        yield from objects.items(kept) if kept and objects.type_name(kept) == b"list" else ()
        return
    first, others = objects.word(future + FIRST_AT), objects.word(future + OTHERS_AT)
    yield from (first,) if first else ()
    for pair in objects.items(others) if others and objects.type_name(others) == b"list" else ():
        yield from objects.items(pair)[:1]


def _is_future(objects: Objects, thing: int) -> bool:
    return not {FUTURE, OF_EXECUTORS}.isdisjoint(objects.bases(thing))
