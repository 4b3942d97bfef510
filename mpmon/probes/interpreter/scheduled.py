"""Which event loop has to run for a future to be completed: the loop of the asyncio future that its result comes from, or the one
to which `run_coroutine_threadsafe` gave its coroutine, which has not begun.

A loop of asyncio keeps the handles of callbacks that are due in the deque `_ready` (Lib/asyncio/base_events.py, events.py); that
of `run_coroutine_threadsafe` is a closure named `callback` over the coroutine, the future and the loop (Lib/asyncio/tasks.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mpmon.probes.interpreter.chained import CLOSURE, FUTURE, OF_EXECUTORS
from mpmon.probes.interpreter.deques import items_of
from mpmon.probes.interpreter.objects import NAME_AT, Objects
from mpmon.probes.interpreter.reachable import CELL_AT

LOOP_AT = 16
"""FutureObj.fut_loop of Modules/_asynciomodule.c."""

MOST_READY = 64
"""Most callbacks of one loop that are searched."""


def loop_of(objects: Objects, chain: Sequence[int], loops: Mapping[int, int], due: Mapping[int, int]) -> int | None:
    """The thread whose loop has to run for the first future of a chain (`chained.sources`), of loops by their threads; `None` if
    that is not known. `due` are futures whose coroutines are about to begin. Raises `Torn`.
    """
    for future in reversed(chain):
        if FUTURE in objects.bases(future):
            return loops.get(objects.word(future + LOOP_AT))
    return due.get(chain[0]) if chain else None


def about_to_begin(objects: Objects, loop: int) -> Iterator[int]:
    """The futures of coroutines that a loop is about to begin. Raises `Torn`."""
    ready = objects.attribute(loop, b"_ready")
    for handle in items_of(objects, ready, MOST_READY) if ready else ():
        for part in objects.slots(handle):
            kept = set(_kept(objects, part))
            yield from (thing for thing in kept if loop in kept and objects.kind(thing) == OF_EXECUTORS)


def _kept(objects: Objects, thing: int) -> Iterator[int]:
    """What the closure of a function named `callback` refers to. Raises `Torn`."""
    if objects.kind(thing) == b"function" and objects.text(objects.word(thing + NAME_AT)) == "callback":
        closure = objects.word(thing + CLOSURE)
        yield from (objects.word(cell + CELL_AT) for cell in (objects.items(closure) if closure else ()))
