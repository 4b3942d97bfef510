"""What the kinds of source have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from mpmon.probes.files import Proc
from mpmon.probes.flight_recorder.dump import Dump

MOST_BYTES = 32 << 20
"""Most bytes of one file or answer."""

REMEDY = (
    "Give a JSON file of one rank, a folder of such files, or http://HOST:PORT of a debug server "
    "(torch.distributed.debug.start_debug_server)."
)


class Look(msgspec.Struct, frozen=True):
    """What a source needs to know about the job."""

    proc: Proc
    pids: tuple[int, ...]
    """The root first, parents before their children."""
    now: Callable[[], float]


class CannotRead(Exception):
    """A source, or one rank of it, that did not answer as expected; in words for the user."""


class Source(Protocol):
    """One place to read from."""

    def read(self, look: Look) -> Iterator[Dump | CannotRead]:
        """The rows of each rank, or why there are none."""
        ...
