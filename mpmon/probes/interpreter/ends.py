"""The descriptors of the connections and sockets that the variables of a call are bound to, also in lists and tuples or by
a method (`send = connection.send`), or the attributes of its `self`.

Forks inherit the ends of all pipes and sockets of their parent; which of them a process uses shows in what its calls name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from mpmon.probes.interpreter.objects import BOUND_TO, METHOD, Objects
from mpmon.probes.interpreter.pages import Torn

CONNECTION, SOCKET = b"Connection", b"socket"
"""multiprocessing.connection.Connection, which keeps its descriptor in `_handle`; socket.socket."""

COLLECTIONS = frozenset({b"list", b"tuple"})

SOCKET_FD = 16
"""PySocketSockObject.sock_fd (Modules/socketmodule.h)."""

MOST_ITEMS = 64
"""Longest list that is searched; of any, the first item has to be a connection."""


MOST_ATTRIBUTES = 32
"""Of one object: reading the type of each takes some three microseconds."""


def ends_in(objects: Objects, variables: Sequence[tuple[int, bytes]]) -> tuple[int, ...]:
    """The open descriptors; `variables` are objects with the names of their types. What cannot be followed is left out."""
    found: dict[int, None] = {}
    for thing, kind in variables:
        with suppress(Torn):
            if kind in COLLECTIONS:
                found.update((end, None) for end in _of_items(objects, thing))
            elif (end := _end(objects, thing, kind)) is not None:
                found[end] = None
    return tuple(found)


def ends_of(objects: Objects, instance: int) -> tuple[int, ...] | None:
    """The same for the attributes of an object, also in dictionaries; `None` if these are too many, or cannot be read."""
    try:
        values = [value for value in objects.values(instance) if value]
        kinds = [objects.kind(value) for value in values[:MOST_ATTRIBUTES]]
        for value, kind in zip(tuple(values), kinds, strict=False):
            values += objects.items(value) if kind == b"dict" else ()
    except Torn:
        return None
    if len(values) > MOST_ATTRIBUTES:
        return None
    return ends_in(objects, [(value, objects.kind(value)) for value in values])


def _of_items(objects: Objects, thing: int) -> Iterator[int]:
    (count,) = objects.words("q", thing + 16)
    items = objects.items(thing) if 0 < count <= MOST_ITEMS else ()
    for item in items:
        end = _end(objects, item, objects.type_name(item)) if item else None
        if end is None:
            return
        yield end


def _end(objects: Objects, thing: int, kind: bytes) -> int | None:
    end: int | None = None
    if kind == CONNECTION:
        end = objects.plain_integer(objects.attribute(thing, b"_handle"))
    elif kind == SOCKET:
        (end,) = objects.words("i", thing + SOCKET_FD)
    elif kind == METHOD:
        (owner,) = objects.words("Q", thing + BOUND_TO)
        of_owner = objects.type_name(owner)
        return _end(objects, owner, of_owner) if of_owner in (CONNECTION, SOCKET) else None
    return None if end is None or end < 0 else end
