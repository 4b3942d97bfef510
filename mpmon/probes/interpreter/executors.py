"""Tasks in the queue of a `ThreadPoolExecutor`, waiting for one of its threads.

The queue is a `_queue.SimpleQueue`: up to 3.12 a list and the index of its first item, from 3.13 on a ring buffer
(simplequeueobject of Modules/_queuemodule.c); its items are `_WorkItem` of Lib/concurrent/futures/thread.py.
"""

from __future__ import annotations

from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import LIST_ITEMS, Objects
from mpmon.probes.interpreter.pages import Torn

MOST_QUEUED = 256
"""Most tasks examined per queue, each in some ten reads: all locks of a process are found within the same `READS`."""

LIST_AT = RING_AT = 24
"""Offset of the fields before 3.13 and since; the word before them is the lock, or a flag."""

LENGTH = 16
"""PyVarObject.ob_size."""


def futures_in(objects: Objects, layout: Layout, queue: int) -> frozenset[int]:
    """The futures of the first tasks in this queue. Raises `Torn`."""
    if objects.type_name(queue) != b"_queue.SimpleQueue":
        return frozenset()
    items = _ring(objects, queue) if layout.version >= (3, 13) else _list(objects, queue)
    found = (objects.attribute(item, b"future") for item in items if item)
    return frozenset(future for future in found if future)


def has_tasks(objects: Objects, layout: Layout, queue: int) -> bool:
    """Anything is in this queue, by its counts alone. Raises `Torn`."""
    if objects.type_name(queue) != b"_queue.SimpleQueue":
        return False
    if layout.version >= (3, 13):
        return objects.words("qqQqq", queue + RING_AT)[-1] > 0
    _, items, first = objects.words("qQq", queue + LIST_AT)
    return objects.words("q", items + LENGTH)[0] > first


def _list(objects: Objects, queue: int) -> tuple[int, ...]:
    _, items, first = objects.words("qQq", queue + LIST_AT)
    count = objects.words("q", items + LENGTH)[0] - first
    if first < 0 or count < 0:
        raise Torn
    return objects.words(f"{min(count, MOST_QUEUED)}Q", objects.word(items + LIST_ITEMS) + 8 * first) if count else ()


def _ring(objects: Objects, queue: int) -> tuple[int, ...]:
    _, first, items, size, count = objects.words("qqQqq", queue + RING_AT)
    if not (0 <= first < size and 0 <= count <= size):
        raise Torn
    places = [(first + step) % size for step in range(min(count, MOST_QUEUED))]
    return tuple(objects.word(items + 8 * place) for place in places)
