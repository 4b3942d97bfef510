"""Arbitrary rows for property tests, made from the rows' own type hints."""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from mpmon.model import Amount, AnyMoment, DeviceNumber, Moment, Name, Pid, Snapshot, Turn

_PLAIN: dict[object, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(st.characters(codec="utf-8"), max_size=12),
    bool: st.booleans(),
    NoneType: st.none(),
    object: st.none(),
    Moment: st.floats(0.0, 4e9),
    AnyMoment: st.floats(allow_nan=False, allow_infinity=False),
    Pid: st.integers(-(2**63), 2**63 - 1),
    Amount: st.floats(0.0, 1e12),
    DeviceNumber: st.integers(-(2**63), 2**63 - 1),
    Name: st.text(st.characters(codec="utf-8"), max_size=12),
    Turn: st.lists(st.integers(-1, 2**63 - 1), min_size=2, max_size=3).map(tuple),
}


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(*map(of, inner))
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*map(of, inner))
    if origin is tuple:
        return st.lists(of(inner[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(of(inner[0]), of(inner[1]), max_size=2)
    return rows(hint)


@cache
def rows(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Rows of a table, with any fields set that may be left out."""
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: of(hints[name]) for name in kind.__struct_fields__})


def changed(row: Any) -> st.SearchStrategy[Any]:
    """The row with any value in one field, or with one of its rows changed so. That is much faster than any row, and every
    field gets its turn.
    """
    hints = get_type_hints(type(row), include_extras=True)

    def other(name: str) -> st.SearchStrategy[Any]:
        value = getattr(row, name)
        values = changed(value) if isinstance(value, msgspec.Struct) else of(hints[name])
        return values.map(lambda value: msgspec.structs.replace(row, **{name: value}))

    return st.sampled_from(row.__struct_fields__).flatmap(other)


def _in_line(snapshot: Snapshot) -> Snapshot:
    """Each process was started by the one before."""
    processes = enumerate(snapshot.processes)
    line = tuple(msgspec.structs.replace(process, pid=at + 1, ppid=at) for at, process in processes)
    return msgspec.structs.replace(snapshot, processes=line)


snapshots: st.SearchStrategy[Snapshot] = rows(Snapshot).map(_in_line)
"""Snapshots with every table."""
