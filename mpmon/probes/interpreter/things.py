"""The visible state of one object, by its type: a few bytes that differ after a change, and the objects it leads to.

Offsets: Objects/setobject.c, bytearrayobject.c, memoryobject.c, funcobject.h, Modules/_collectionsmodule.c and
_functoolsmodule.c of CPython, the same from 3.10 to 3.14; numpy/_core/include/numpy/ndarraytypes.h;
torch/csrc/autograd/python_variable.h, c10/core/TensorImpl.h and StorageImpl.h of torch, from 1.13 on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import islice

from mpmon.probes.interpreter.objects import CLASS_DICT, LIST_ITEMS, Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.reachable import CELL_AT

POSITION_AT = {
    b"list_iterator": 16, b"tuple_iterator": 16, b"range_iterator": 16, b"enumerate": 16, b"str_iterator": 16,
    b"str_ascii_iterator": 16, b"dict_keyiterator": 32, b"dict_valueiterator": 32, b"dict_itemiterator": 32,
}  # fmt: skip
"""Iterators over finite objects, with the offset of the word that advances: Objects/listobject.c and others."""

CALLERS = frozenset({b"callable_iterator"})
"""Iterators that call something until it returns a certain value, and have no position of their own."""

CYCLE, SOURCE_AT = b"itertools.cycle", 16
"""`itertools.cycle`, and where its source is, which it forgets at the end of its first round: Modules/itertoolsmodule.c."""

ENDS = 12
"""Elements examined at each end of a container."""

MOST_KEYS = 1 << 26

LONGEST_TEXT = 64

SAMPLES, SAMPLE = 8, 256
"""Number of places of an array's memory that are read, and bytes at each."""

ATTEMPTS = 4
"""Most reads of something that is replaced meanwhile."""

DEVICES = range(1, 32)
"""Values of `c10::DeviceType`: all but the CPU, which is 0."""

BORROWED = 1
"""Largest value of the word before the tensor pointer in torch before 2.10: whether Python only borrows the tensor."""

MOST_DIMENSIONS = 64

Look = Callable[[Objects, int], bytes]
Parts = Callable[[Objects, int], Sequence[int]]


class Hidden(Exception):
    """The object may change invisibly."""


def _integer(objects: Objects, thing: int) -> bytes:
    try:
        return b"%d" % objects.integer(thing)
    except Torn:
        return objects.read(thing + 16, 20)


def _float(objects: Objects, thing: int) -> bytes:
    return objects.read(thing + 16, 8)


def _text(objects: Objects, thing: int) -> bytes:
    return b"%d" % objects.word(thing + 16) + objects.text(thing, LONGEST_TEXT).encode()


def _bytes(objects: Objects, thing: int) -> bytes:
    size = objects.word(thing + 16)
    return b"%d" % size + objects.read(thing + 32, min(size, LONGEST_TEXT) or 1)


def _bytearray(objects: Objects, thing: int) -> bytes:
    size, start = objects.word(thing + 16), objects.word(thing + 40)
    return b"%d" % size + (objects.read(start, min(size, LONGEST_TEXT)) if size else b"")


def _memoryview(objects: Objects, thing: int) -> bytes:
    """Address and length."""
    return objects.read(thing + 56, 8) + objects.read(thing + 72, 8)


def _set(objects: Objects, thing: int) -> bytes:
    return objects.read(thing + 24, 8)


def _deque(objects: Objects, thing: int) -> bytes:
    """Length, and the positions of its ends in their blocks."""
    return objects.read(thing + 16, 8) + objects.read(thing + 40, 16)


def _simple_queue(objects: Objects, thing: int) -> bytes:
    """How far it was read, and from Python 3.13 on how far it was filled: Modules/_queuemodule.c."""
    return objects.read(thing + 24, 32)


def _simple_items(objects: Objects, thing: int) -> Sequence[int]:
    """The list of its items, before Python 3.13."""
    return (objects.word(thing + 32),)


def _size(objects: Objects, thing: int) -> bytes:
    """The size of a tuple or dictionary."""
    return objects.read(thing + 16, 8)


def _list(objects: Objects, thing: int) -> bytes:
    """Length, and for a long list some of its elements, by their addresses."""
    size = objects.word(thing + 16)
    return b"%d" % size + (_sample(objects, objects.word(thing + LIST_ITEMS), 8 * size) if size > 2 * ENDS else b"")


def _elements(objects: Objects, thing: int) -> Sequence[int]:
    return objects.ends(thing, ENDS)


def _values(objects: Objects, thing: int) -> Sequence[int]:
    try:
        return tuple(value for _, value in islice(objects.pairs(thing, MOST_KEYS), 2 * ENDS))
    except Torn:
        return ()


def _cell(objects: Objects, thing: int) -> Sequence[int]:
    return (objects.word(thing + CELL_AT),)


def _method(objects: Objects, thing: int) -> Sequence[int]:
    """The object that the method is bound to."""
    return (objects.word(thing + 24),)


def _function(objects: Objects, thing: int) -> Sequence[int]:
    """Defaults, and the cells of variables shared with the enclosing function."""
    return objects.word(thing + 56), objects.word(thing + 72)


def _partial(objects: Objects, thing: int) -> Sequence[int]:
    """Function, positional arguments, keyword arguments."""
    return objects.words("QQQ", thing + 16)


def _class(objects: Objects, thing: int) -> Sequence[int]:
    """Attributes of the class, shared by all instances."""
    dictionary = objects.word(thing + CLASS_DICT)
    return _values(objects, dictionary) if dictionary else ()


def _called(objects: Objects, thing: int) -> Sequence[int]:
    return (objects.word(thing + 16),)


def tensor(objects: Objects, thing: int) -> bytes:
    """Some of the numbers of a torch tensor.

    Raises:
        Hidden: they are not in the memory of the process.
        Torn: the tensor keeps getting other memory.
    """
    for _ in range(ATTEMPTS):
        data, device, size = memory = _memory(objects, thing)
        if device & 0xFF in DEVICES:
            raise Hidden
        seen = _sample(objects, data, size) if data else b""
        objects.forget_pages()
        if _memory(objects, thing) == memory:
            return seen
    raise Torn


def _memory(objects: Objects, thing: int) -> tuple[int, int, int]:
    """Address of the numbers, their device, and their size in bytes."""
    first, second = objects.words("QQ", thing + 16)
    storage = objects.word((second if first <= BORROWED else first) + 16)
    data, _, _, device, size = objects.words("QQQQQ", storage + 16)
    return data, device, size


def array(objects: Objects, thing: int) -> bytes:
    """Some of the numbers of a contiguous numpy array; of a 0-dimensional one, its value. Raises `Torn`."""
    data, head, shape, strides = objects.words("QQQQ", thing + 16)
    dimensions = min(head & 0xFFFFFFFF, MOST_DIMENSIONS)
    if not dimensions:
        return objects.read(data, 8)
    sizes, steps = objects.words(f"{dimensions}q", shape), objects.words(f"{dimensions}q", strides)
    spans = [size * step for size, step in zip(sizes, steps, strict=True)]
    return _sample(objects, data, max(spans)) if min(spans) > 0 else b""


def _sample(objects: Objects, data: int, size: int) -> bytes:
    """Samples of a block of memory, evenly spread."""
    places = range(0, size, max(SAMPLE, size // SAMPLES))
    return struct.pack("=Q", size) + b"".join(objects.read(data + at, min(SAMPLE, size - at)) for at in places)


def repeats(objects: Objects, iterator: int, kind: bytes) -> bool:
    """Whether an iterator only gives the same elements again and again, so that to advance it is no progress.

    Raises:
        Torn: its memory changed meanwhile.
    """
    return kind == CYCLE and objects.word(iterator + SOURCE_AT) == 0


def _by_chance(_objects: Objects, _thing: int) -> bytes:
    """Nothing gets anywhere by what a generator of random numbers has drawn."""
    return b"random numbers"


VALUES: dict[bytes, Look] = {b"int": _integer, b"bool": _integer, b"float": _float, b"str": _text, b"bytes": _bytes}
"""Immutable types without references."""

LOOKS: dict[bytes, Look] = {
    b"set": _set, b"collections.deque": _deque, b"bytearray": _bytearray, b"memoryview": _memoryview,
    b"list": _list, b"tuple": _size, b"dict": _size, b"_queue.SimpleQueue": _simple_queue,
    **dict.fromkeys((
        b"_random.Random", b"numpy.random._generator.Generator", b"numpy.random.mtrand.RandomState", b"torch._C.Generator",
    ), _by_chance),
}  # fmt: skip
"""Types whose state shows in their contents."""

PARTS: dict[bytes, Parts] = {
    b"list": _elements, b"tuple": _elements, b"dict": _values, b"cell": _cell, b"method": _method, b"function": _function,
    b"functools.partial": _partial, b"callable_iterator": _called, b"type": _class,
    b"_queue.SimpleQueue": _simple_items,
}  # fmt: skip
"""Types that lead to other objects."""
