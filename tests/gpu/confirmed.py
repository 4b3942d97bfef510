"""What the page `confirmed` of the manual says about GPUs: an entry for each file in `confirmed/`.

Such a file is what `mpmon doctor --gpu --report FILE` or `python -m pytest tests/gpu --gpu-report FILE` wrote on a GPU.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from mpmon.doctor.gpu.case import CONFIRMED, NOT_HERE, WRONG
from mpmon.doctor.gpu.report import Report, decode

FOLDER = Path(__file__).parent / "confirmed"

BEGIN = "- On a GPU"

NOTHING = (
    f"{BEGIN}: not confirmed. Everything about GPUs and CUDA IPC was tried with stand-ins for the driver (`tests/nvml`) "
    "and for three storage primitives of torch (`tests/ipc/standin.py`)."
)
"""While there is no file."""

COLUMNS = 80
"""Of a page."""


def written(folder: Path = FOLDER) -> str:
    """The entries as they stand in the page."""
    return "".join(f"{_wrapped(entry)}\n" for entry in entries(folder))


def _wrapped(entry: str) -> str:
    return textwrap.fill(entry, COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def entries(folder: Path = FOLDER) -> list[str]:
    """A line for each, the newest last."""
    reports = [decode(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    told = [report for report in reports if not report.standin]
    return [_entry(report) for report in sorted(told, key=lambda report: report.day)] or [NOTHING]


def _entry(report: Report) -> str:
    gpus = ", ".join(dict.fromkeys(report.gpus))
    torch = f"torch {report.torch}" if report.torch else "without torch"
    where = f"{BEGIN} ({gpus}, driver {report.driver}, {torch}, Linux {report.kernel}, {report.day})"
    told = (_names(report, verdict) for verdict in (CONFIRMED, WRONG, NOT_HERE))
    return f"{where}: {'; '.join(filter(None, told))}."


def _names(report: Report, verdict: str) -> str:
    names: Sequence[str] = [row.name for row in report.results if row.verdict == verdict]
    return f"{verdict}: {', '.join(names)}" if names else ""
