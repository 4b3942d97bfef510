"""Plain values printed as py-spy prints them, so that it does not matter which of the two read them: numbers, strings,
and small containers of these.  py-spy formats floats as Rust does, and quotes in its own way.

Digests of these texts are compared, and few of the texts are kept; see `mpmon.probes.calls`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from decimal import Decimal

from mpmon.probes.interpreter.objects import DICT, LIST, LONG, TEXT, TUPLE, Objects
from mpmon.probes.interpreter.pages import Torn

LONGEST, SHORTEST = 128, 5
"""Most characters of one value, including a container's values; with no more room than this, none is printed."""

MOST_ITEMS = 30
"""A larger container would be longer than any value that is used."""

TOO_LARGE = 1 << 60
"""The smallest number of more than two CPython digits."""

BIG = "+bigint"
"""In place of such a number or its negative."""

MORE, NOT_READ, OBJECT = "...", "?", "<"
"""`OBJECT` begins the text of anything whose value is not shown."""

NUMPY = {
    b"numpy.bool": "?", b"numpy.uint8": "B", b"numpy.uint16": "H", b"numpy.uint32": "I", b"numpy.uint64": "Q",
    b"numpy.int8": "b", b"numpy.int16": "h", b"numpy.int32": "i", b"numpy.int64": "q", b"numpy.float32": "f",
    b"numpy.float64": "d",
}  # fmt: skip
"""Scalars, and the `struct` format of each."""

VALUE_AT = 16
"""Offset after PyObject_HEAD: the value of a float or scalar, the size of an object that has one."""


def printed(objects: Objects, thing: int, room: int = LONGEST) -> str:
    """An object, in this many characters or slightly more."""
    try:
        return _printed(objects, thing, room)
    except Torn:
        return NOT_READ


def _printed(objects: Objects, thing: int, room: int) -> str:
    if room <= SHORTEST:
        return MORE
    name, flags = objects.type_name(thing), objects.flags(thing)
    if flags & LONG:
        return _integer(objects, thing, is_bool=name == b"bool")
    if flags & TEXT:
        return _word(objects.text(thing, room + 1), room)
    if flags & (DICT | LIST | TUPLE):
        return _container(objects, thing, flags, room)
    if name == b"float":
        return real(*objects.words("d", thing + VALUE_AT))
    if name == b"NoneType":
        return "None"
    if form := NUMPY.get(name):
        (value,) = objects.words(form, thing + VALUE_AT)
        return real(_rounded(value) if form == "f" else value) if form in "fd" else str(value).lower()
    return OBJECT


def _integer(objects: Objects, thing: int, *, is_bool: bool) -> str:
    try:
        return integer(objects.integer(thing), is_bool=is_bool)
    except Torn:
        return BIG


def integer(number: int, *, is_bool: bool = False) -> str:
    """The number itself, unless it is too large."""
    if abs(number) >= TOO_LARGE:
        return BIG
    return str(number > 0) if is_bool else str(number)


def _word(text: str, room: int) -> str:
    text = text.replace("'", '\\"').replace("\n", "\\n")
    return f'"{text[: room - SHORTEST]}{MORE}"' if len(text) > room - SHORTEST else f'"{text}"'


def _container(objects: Objects, thing: int, flags: int, room: int) -> str:
    (size,) = objects.words("q", thing + VALUE_AT)
    if not 0 <= size <= MOST_ITEMS:
        return OBJECT
    if flags & DICT:
        return f"{{{_joined(objects, objects.pairs(thing), room)}}}"
    inside = _joined(objects, ((item,) for item in objects.ends(thing, MOST_ITEMS)), room)
    return f"[{inside}]" if flags & LIST else f"({inside})"


def _joined(objects: Objects, items: Iterable[tuple[int, ...]], room: int) -> str:
    texts: list[str] = []
    room -= 2
    for item in items:
        parts = [_printed(objects, part, room) for part in item]
        room -= sum(len(part.encode()) + 2 for part in parts)
        if room <= SHORTEST:
            texts.append(MORE)
            break
        texts.append(": ".join(parts))
    return ", ".join(texts)


def real(value: float) -> str:
    """A number without an exponent, and without a fraction if it is an integer."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return format(Decimal(repr(value)), "f").removesuffix(".0")


def _rounded(value: float) -> float:
    """The shortest number that is equal in 32 bits."""
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next((float(text) for text in texts if _as_single(float(text)) == value), value)


def _as_single(value: float) -> float:
    try:
        return struct.unpack("=f", struct.pack("=f", value))[0]
    except OverflowError:
        return value
