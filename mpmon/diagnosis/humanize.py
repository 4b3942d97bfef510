"""Numbers as people say them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpmon.model import Mount
from mpmon.spans import Spans, count, spans


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


def verb(count: int, word: str) -> str:
    """`waits` of one, `wait` of several."""
    return f"{word}s" if count == 1 else word


def size(count: float) -> str:
    """`12 B`, `78 KiB`, `480 MiB`, `59.1 GiB`, `1.5 TiB`."""
    if count >= 1 << 40:
        return f"{count / (1 << 40):.1f} TiB"
    if 0 < count < 1 << 20:
        return f"{count / (1 << 10):.0f} KiB" if count >= 1 << 10 else f"{count:.0f} B"
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"


def runs(numbers: Iterable[int]) -> str:
    """Numbers, those in a row joined: `0, 2 and 5-7`."""
    return _spans_words(spans(numbers))


def ranges(ranks: Spans) -> str:
    """`rank 4`, `ranks 0, 2 and 5-7`."""
    return f"rank{'s' if count(ranks) > 1 else ''} {_spans_words(ranks)}"


def _spans_words(these: Spans) -> str:
    return several([f"{first}-{last}" if first < last else f"{first}" for first, last in these])


def between(least: str, most: str) -> str:
    """`480 MiB`, `460 MiB to 520 MiB`."""
    return least if least == most else f"{least} to {most}"


SAME = 0.2
"""Speeds that differ by less than this share are shown as one: the counts are read at different moments."""


def speeds(found: Sequence[float]) -> str:
    """Several speeds, per second: `8.5`, `3.1 to 8.5`, `120`."""
    slow, fast = min(found), max(found)
    if slow >= (1 - SAME) * fast:
        return speed(sum(found) / len(found))
    return between(speed(slow), speed(fast))


def speed(per_second: float) -> str:
    """A speed per second, with two significant digits: "0.25", "3.4", "120"."""
    return f"{per_second:.{2 if per_second < 1 else 1 if per_second < 100 else 0}f}"


def with_pid(name: str, pid: int | str) -> str:
    """`rank 3 (pid 7)`; a name in parentheses is joined with the pid: `process train (Process-2, pid 7)`."""
    note = name.rpartition("(")[2].removesuffix(")") if name.endswith(")") else ""
    return f"{name[:-1]}, pid {pid})" if note and not note.isdigit() else f"{name} (pid {pid})"


def mount_words(mount: Mount) -> str:
    """`nfs4 server:/export on /data`."""
    return f"{mount.kind} {mount.source} on {mount.path}"
