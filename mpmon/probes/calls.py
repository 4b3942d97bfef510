"""One Python call, or a stack of them, as rows: identical for all readers.

Locals are read to tell two calls of one function apart, and for the few names in `KNOWN_LOCALS`, `KNOWN_WORDS` and
`KNOWN_KINDS`. For all others only a digest of the objects' identities is kept: the values are private to the user.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec

from mpmon.model import USERS_WITHOUT_FILE, Frame

MAX_FRAMES = 400
"""Most frames kept per thread, half of them the innermost, half the outermost."""

KNOWN_LOCALS: dict[str, frozenset[str]] = {
    "_worker_loop": frozenset({"worker_id", "num_workers"}),
    "_next_data": frozenset({"worker_id"}),
    "worker": frozenset({"completed", "maxtasks"}),
    "_wrap": frozenset({"i"}),
    "_create_c10d_store": frozenset({"port"}),
    **dict.fromkeys(("send", "isend"), frozenset({"dst", "tag"})),
    **dict.fromkeys(("recv", "irecv"), frozenset({"src", "tag"})),
    **dict.fromkeys(
        ("broadcast", "broadcast_object_list", "scatter", "scatter_object_list"), frozenset({"src", "group_src"})
    ),
    **dict.fromkeys(("reduce", "gather", "gather_object"), frozenset({"dst", "group_dst"})),
}
"""Locals of libraries' functions worth keeping: torch/utils/data/_utils/worker.py, torch/utils/data/dataloader.py,
torch/multiprocessing/spawn.py, torch/distributed/distributed_c10d.py, torch/distributed/rendezvous.py,
Lib/multiprocessing/pool.py. They are small numbers."""

KNOWN_WORDS = {
    "init_process_group": "init_method", "_create_c10d_store": "hostname", "_new_process_group_helper": "group_name",
    "_find_and_load": "name", "_lock_unlock_module": "name",
}  # fmt: skip
"""The same for strings: the ranks' rendezvous, as `tcp://10.0.0.1:29500` or `file:///scratch/meet`, or its host; the name of a
group that is made, by which its ranks meet; the imported module, in functions of CPython's Lib/importlib/_bootstrap.py.
"""

KNOWN_KINDS = {"_feed": "obj"}
"""Of these only the type is kept, `PLAIN` where py-spy prints the value: the feeder thread of a queue sent a `memoryview`,
or failed to pickle the object that the variable is still bound to (Lib/multiprocessing/queues.py).
"""

PLAIN = "plain"

LONGEST_WORD = 200

PLAIN_LENGTH, MOST_PLAIN = 60, 24
"""Longest value that counts as plain, and how many of one frame are digested."""

KNOWN_NUMBERS = frozenset({"rank", "world_size"})
"""Kept from any frame if they are plain numbers: the rank of a process in a job started by hand."""


class Local(msgspec.Struct):
    """A local variable, as py-spy prints it."""

    name: str
    addr: int = 0
    arg: bool = False
    repr: str | None = None


class Call(msgspec.Struct):
    """A Python call, as py-spy prints it."""

    name: str
    filename: str | None = None
    line: int = 0
    locals: list[Local] | None = None
    is_entry: bool = False
    """It was entered by a new C frame of the interpreter's loop."""
    is_shim_entry: bool = False
    """The same from Python 3.12 on, where a frame that is not a call stands in between."""
    ends: tuple[int, ...] = ()
    """`Frame.ends`, which py-spy does not print."""
    own_ends: tuple[int, ...] | None = ()
    """`Frame.own_ends`, likewise."""
    unshared: bool = False
    """`Frame.unshared`, likewise."""


class Numbers:
    """The plain numbers in the frames of one process at the last reading, to see which of them grow.

    They are kept here only, and only until the next reading.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[object, ...], float] = {}
        self._now: dict[tuple[object, ...], float] = {}

    def turn(self, kept: Collection[int] = ()) -> None:
        """Start the next reading, which does not read the threads in `kept` again."""
        self._before = self._now
        self._now = {call: value for call, value in self._before.items() if call[0] in kept} if kept else {}

    def trend(self, call: tuple[object, ...], plain: Iterable[Local]) -> dict[str, int]:
        """`Frame.trend` of one call, identified by its thread, function and place."""
        found: dict[str, int] = {}
        for item in plain:
            value = _number(item.repr or "")
            if value is None:
                continue
            name = (*call, item.name)
            self._now[name] = value
            before = self._before.get(name, value)
            if value != before:
                found[item.name] = 1 if value > before else -1
        return found


def _number(text: str) -> float | None:
    """`None` also for NaN, which is neither larger nor smaller than anything."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


Item = TypeVar("Item")


def bounded(frames: Sequence[Item]) -> Sequence[Item]:
    """Only the innermost and the outermost frames of a deep stack."""
    if len(frames) <= MAX_FRAMES:
        return frames
    half = MAX_FRAMES // 2
    return [*frames[:half], *frames[-half:]]


def rows(calls: Sequence[Call], tid: int, numbers: Numbers) -> tuple[Frame, ...]:
    """The frames of one thread, innermost first as they come; `numbers` are those of its process."""
    return tuple(_row(call, (tid, len(calls) - at), numbers) for at, call in enumerate(calls))


def _row(frame: Call, place: tuple[int, int], numbers: Numbers) -> Frame:
    plain = _plain(frame)
    return Frame(
        function=_once(frame.name),
        file=_once(frame.filename or ""),
        line=frame.line,
        arguments_digest=_digest(frame.locals, arguments=True),
        locals_digest=_digest(frame.locals, arguments=False),
        plain={item.name: zlib.crc32((item.repr or "").encode()) for item in plain} or None,
        trend=numbers.trend((*place, frame.name), plain) or None,
        known=_known(frame) or None,
        is_entry=frame.is_entry or frame.is_shim_entry,
        ends=frame.ends,
        own_ends=frame.own_ends,
        unshared=frame.unshared,
    )


def _once(text: str) -> str:
    """One shared object for equal values. `sys.intern` is not used because Python 3.12 never frees interned strings."""
    return _kept(text) if len(text) <= LONGEST_WORD else text


@lru_cache(maxsize=4096)
def _kept(text: str) -> str:
    return text


def is_users(file: str) -> bool:
    """Neither of the standard library nor of an installed package."""
    if file.startswith("<"):
        return USERS_WITHOUT_FILE.fullmatch(file) is not None
    return not ("/lib/python" in file or "-packages/" in file)


BIG = "+bigint"
"""How py-spy prints whole numbers that it does not read."""


def _plain(frame: Call) -> list[Local]:
    """The plain locals of a user frame."""
    if not is_users(frame.filename or "<"):
        return []
    plain = (
        item
        for item in frame.locals or ()
        if item.repr and len(item.repr) <= PLAIN_LENGTH and "<" not in item.repr and item.repr != BIG
    )
    return list(itertools.islice(plain, MOST_PLAIN))


def bare(function: str) -> str:
    """Its name without the names of enclosing scopes."""
    return function.rpartition(".")[2]


def _known(frame: Call) -> dict[str, str]:
    if not frame.locals:
        return {}
    function = bare(frame.name)
    wanted = KNOWN_LOCALS.get(function, frozenset[str]()) | KNOWN_NUMBERS
    found = {item.name: item.repr for item in frame.locals if item.name in wanted and item.repr and item.repr.isdigit()}
    found |= {
        item.name: item.repr[1:-1] for item in frame.locals
        if item.name == KNOWN_WORDS.get(function) and item.repr and item.repr[0] in "\"'" and len(item.repr) <= LONGEST_WORD
    }  # fmt: skip
    kinds = (item for item in frame.locals if item.name == KNOWN_KINDS.get(function) and item.repr)
    return found | {item.name: _kind(item.repr or "") for item in kinds}


def _kind(text: str) -> str:
    """The name of a type from `<memoryview at 0x7f0c2a5f1b80>`, or of an own text `<memoryview`."""
    return text[1:].partition(" ")[0] if text.startswith("<") else PLAIN


def _digest(variables: list[Local] | None, *, arguments: bool) -> int | None:
    """A digest of the objects that the arguments, or the other locals, are bound to."""
    chosen = [(item.name, item.addr, item.repr) for item in variables or () if item.arg is arguments]
    return zlib.crc32(repr(chosen).encode()) if chosen else None
