"""The results of the cases, as lines for the screen and as a file that can be sent to others: no names, no paths.

The file says which driver, GPU, torch and kernel these are, and the words of the cases; not who ran them, where, or on
which machine.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from datetime import datetime, timezone

import msgspec

from mpmon import __version__
from mpmon.doctor.gpu.case import CONFIRMED, NOT_HERE, WRONG, Result
from mpmon.printable import written_out
from mpmon.probes.nvml.wire import Look

SCHEMA = "mpmon.gpu/1"
WIDTH = len(NOT_HERE)
UNKNOWN = "unknown"


class Row(msgspec.Struct, frozen=True):
    """The result of one case."""

    name: str
    confirms: str
    verdict: str
    words: str
    figures: dict[str, float]
    seconds: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The file."""

    schema: str
    mpmon: str
    day: str
    """In UTC, as `2026-11-22`."""
    driver: str
    gpus: tuple[str, ...]
    """Models."""
    torch: str | None
    python: str
    kernel: str
    """Two numbers, since a release may have a name in it."""
    machine: str
    standin: bool
    """The results come from stand-ins and say nothing about a real GPU."""
    results: tuple[Row, ...]


def report(look: Look, torch: str | None, results: Sequence[Result], *, standin: bool = False) -> Report:
    """The report of one run on one machine."""
    kernel = re.match(r"\d+\.\d+", platform.release())
    return Report(
        schema=SCHEMA, mpmon=__version__, day=datetime.now(timezone.utc).date().isoformat(), driver=look.driver or UNKNOWN,
        gpus=tuple(gpu.name for gpu in look.gpus), torch=torch, python=platform.python_version(),
        kernel=kernel[0] if kernel else UNKNOWN, machine=platform.machine(), standin=standin,
        results=tuple(
            Row(row.name, row.confirms, row.verdict, row.words, dict(row.figures), row.seconds) for row in results
        ),
    )  # fmt: skip


def encode(made: Report) -> bytes:
    """The file's bytes."""
    return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"


def decode(text: bytes) -> Report:
    """The report in such a file. Raises: msgspec.MsgspecError: it is none."""
    return msgspec.json.decode(text, type=Report)


def machine_words(look: Look) -> str:
    """Driver and GPUs in one line."""
    names = ", ".join(dict.fromkeys(gpu.name for gpu in look.gpus))
    count = f"{len(look.gpus)} × " if len(look.gpus) > 1 else ""
    return f"driver {look.driver or UNKNOWN}, {count}{names}"


def torch_words(version: str | None) -> str:
    """The torch in mpmon's environment."""
    return f"torch {version}" if version else "no torch with CUDA"


def line(result: Result) -> str:
    """One case; if it is wrong, with what else is known."""
    text = f"{result.verdict:<{WIDTH}}  {result.name}: {result.words}"
    detail = f"\n{'':<{WIDTH}}  {written_out(result.detail)}" if result.detail else ""
    return written_out(text) + detail


def summary(results: Sequence[Result]) -> str:
    """The number of cases with each result."""
    counts = {verdict: sum(row.verdict == verdict for row in results) for verdict in (CONFIRMED, WRONG, NOT_HERE)}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
