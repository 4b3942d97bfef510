"""Numbers as people say them."""

from __future__ import annotations


def age(seconds: float) -> str:
    """`4 s`, `4 min 12 s`, `3 h 5 min`, `2 d 4 h`."""
    whole = max(0, int(seconds))
    for size, unit, part, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def amount(seconds: float) -> str:
    """A time that need not be exact: `23 h`, `5 min`, `40 s`."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 1.9 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds)} s"


def several(names: list[str], most: int = 4) -> str:
    """`a, b and c`; `a, b, c and 9 more`."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""
