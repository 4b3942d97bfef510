"""Arbitrary rows for property tests, made from the rows' own type hints."""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from mpmon.model import Row, Snapshot

_PLAIN: dict[object, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(st.characters(codec="utf-8"), max_size=12),
    bool: st.booleans(),
    NoneType: st.none(),
    object: st.none(),
}


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type."""
    if hint in _PLAIN:
        return _PLAIN[hint]
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
def rows(kind: type[Row]) -> st.SearchStrategy[Any]:
    """Rows of a table, with any fields set that may be left out."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: of(hints[name]) for name in kind.__struct_fields__})


snapshots: st.SearchStrategy[Snapshot] = rows(Snapshot)
"""Snapshots with every table."""
