"""Numbers as people read them. Pure; what is unknown is `None` and reads "–", never 0."""

from __future__ import annotations

import time
from itertools import groupby

from mpmon import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar

    NumberT = TypeVar("NumberT", int, float)

UNKNOWN = "–"

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

KIB = 1024
GIB = KIB**3
UNITS = "KMGTP"
"""Letters of KiB, MiB, GiB …"""


def age(seconds: float | None) -> str:
    """A duration in the two largest units that count: "4 min 12 s"."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def moment(seconds: float) -> str:
    """A moment in local time: "2026-01-01 12:00:00"."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def clock(seconds: float) -> str:
    """A moment of the day in local time: "12:00:00"."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def steady(seconds: float) -> int:
    """A duration down to the last ten seconds, from a minute on to the last minute: it seldom changes."""
    whole = max(0, int(seconds))
    return whole // 10 * 10 if whole < MINUTE else whole // MINUTE * MINUTE


def short_age(seconds: float | None) -> str:
    """A duration in one unit, for a column, as `steady` makes it, so that the row is not drawn each second."""
    if seconds is None:
        return UNKNOWN
    whole = steady(seconds)
    if whole < MINUTE:
        return f"{whole} s+" if whole else "<10 s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02}"
    return f"{whole // DAY} d"


def span(seconds: int) -> str:
    """How far back something goes: "2 min", "200 s"."""
    return UNKNOWN if not seconds else f"{seconds} s" if seconds % MINUTE else f"{seconds // MINUTE} min"


def size(count: int | None) -> str:
    """Bytes in at most five cells: "512", "10K", "1.2G"."""
    if count is None:
        return UNKNOWN
    if count < KIB:
        return str(count)
    value = float(count)
    for unit in UNITS:
        value /= KIB
        if value < 9.95:
            return f"{value:.1f}{unit}"
        if value < KIB - 0.5:
            return f"{value:.0f}{unit}"
    return f"{value:.0f}{UNITS[-1]}"


def filling(used: int | None, total: int | None) -> str:
    """Memory used of what there is, in GiB: "59.1/80G"."""
    if used is None and total is None:
        return UNKNOWN
    said = UNKNOWN if used is None else f"{used / GIB:.1f}"
    whole = UNKNOWN if total is None else f"{total / GIB:.{0 if total >= 10 * GIB else 1}f}G"
    return f"{said}/{whole}"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers with neighbours together: "0–3,7"."""
    parts: list[str] = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        parts.append(str(members[0]) if len(members) == 1 else f"{members[0]}–{members[-1]}")
    return ",".join(parts)


def between(least: str, most: str) -> str:
    """Two ends of a range: "3–4", or "3" when they read alike."""
    return least if least == most else f"{least}–{most}"


def total(values: Iterable[NumberT | None]) -> NumberT | None:
    """The sum; unknown unless every part is known, and of no part at all."""
    found = None
    for value in values:
        if value is None:
            return None
        found = value if found is None else found + value
    return found


def places(found: Iterable[tuple[int, int | None]]) -> str:
    """Devices, and instances on them: "0–7", "0:1,0:2"."""
    ordered = sorted(found, key=lambda place: (place[0], place[1] or 0))
    whole = ranges([device for device, instance in ordered if instance is None])
    parts = [f"{device}:{instance}" for device, instance in ordered if instance is not None]
    return ",".join(filter(None, (whole, *parts)))


def percent(value: float | None) -> str:
    """A percentage without its sign."""
    return UNKNOWN if value is None else f"{value:.0f}"


def number(value: float | None) -> str:
    """A count."""
    return UNKNOWN if value is None else str(value)


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun: "1 rank", "4 ranks"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def command(cmdline: tuple[str, ...] | None) -> str:
    """The command without its interpreter: "train.py --lr 0.1" for "/usr/bin/python3 -u train.py --lr 0.1"."""
    if not cmdline:
        return UNKNOWN
    rest = list(cmdline)
    if file_name(rest[0]).startswith(("python", "pypy")) and len(rest) > 1:
        rest = _after_interpreter_options(rest[1:]) or rest
    return " ".join([file_name(rest[0]), *rest[1:]])


def _after_interpreter_options(arguments: list[str]) -> list[str]:
    """What the interpreter runs: a module's name, "-c", or a script, with its arguments."""
    takes_value = {"-W", "-X"}
    index = 0
    while index < len(arguments) and arguments[index].startswith("-") and arguments[index] != "-c":
        if arguments[index] == "-m":
            return arguments[index + 1 :]
        index += 2 if arguments[index] in takes_value else 1
    return start.words_of(arguments) or arguments[index:]
