"""The table of thresholds is complete, and each of its rows says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon import diagnosis
from mpmon.diagnosis import thresholds

HOME = Path(diagnosis.__file__).parent
TABLE = Path(thresholds.__file__)
UNITS = ("_S", "_SHARE", "_PERCENT", "_BYTES", "_LOOKS", "_ROUNDS")
OTHERS = {
    "remarks": "what each remark needs stands with it",
    "event_log/__init__.py": "when events are told",
    "event_log/lives.py": "when events are told",
    "state/history.py: TREND_ROUNDS": "memory",
    "ipc/memory.py": "which rows are shown",
    "explanation/views.py": "which rows are shown",
    "humanize.py": "how speeds are told",
}
"""Files, folders and constants of whose numbers none judges a job, and what they are about."""


def numbers(text: str) -> Iterator[str]:
    """The constants of a module that are times, shares or other measures: by their units, or as they are no whole numbers."""
    for row in ast.parse(text).body:
        if not isinstance(row, ast.Assign | ast.AnnAssign) or row.value is None or not is_number(row.value):
            continue
        parts = [part.value for part in ast.walk(row.value) if isinstance(part, ast.Constant)]
        broken = any(isinstance(part, float) for part in parts) or "/" in ast.unparse(row.value)
        target = row.targets[0] if isinstance(row, ast.Assign) else row.target
        names = [name.id for name in ast.walk(target) if isinstance(name, ast.Name)]
        yield from (name for name in names if broken or name.endswith(UNITS))


def is_number(value: ast.expr) -> bool:
    """Written down, alone, in a sum or product, or with others."""
    parts = list(ast.walk(value))
    plain = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.Name, ast.operator, ast.unaryop, ast.expr_context)
    return all(isinstance(part, plain) for part in parts) and any(
        isinstance(part, ast.Constant) and type(part.value) in (int, float) for part in parts
    )


def elsewhere() -> list[str]:
    """Those outside of the table."""
    paths = [path for path in sorted(HOME.rglob("*.py")) if path != TABLE]
    return [f"{path.relative_to(HOME)}: {name}" for path in paths for name in numbers(path.read_text(encoding="utf-8"))]


def is_allowed(found: str, other: str) -> bool:
    return found == other or found.startswith((f"{other}/", f"{other}:"))


def test_a_number_that_judges_a_job_stands_in_the_table() -> None:
    assert [found for found in elsewhere() if not any(is_allowed(found, other) for other in OTHERS)] == []


def test_each_exception_is_needed() -> None:
    assert [other for other in OTHERS if not any(is_allowed(found, other) for found in elsewhere())] == []


@pytest.mark.parametrize(
    "text",
    ["WAIT_S = 5", "BUSY = 0.3", "A, B = 3, 0.5", "MOST = 2 / 3", "LEAST_BYTES = 1 << 20", "TWICE_S: float = 2 * A"],
)
def test_a_number_of_that_sort_is_noticed(text: str) -> None:
    assert list(numbers(text))


@pytest.mark.parametrize("text", ["MOST_TOLD = 4", "ROWS = {'a': 0.5}", "found_at = now()", "NAME = 'a'"])
def test_what_is_none_is_left_alone(text: str) -> None:
    assert not list(numbers(text))


def rows() -> list[tuple[str, str]]:
    """Name and docstring of each row of the table."""
    body = [row for row in ast.parse(TABLE.read_text(encoding="utf-8")).body if not isinstance(row, ast.ImportFrom)][1:]
    return [(ast.unparse(row), ast.unparse(why)) for row, why in zip(body[::2], body[1::2], strict=True)]


def test_each_row_has_a_number_and_says_why() -> None:
    assert all(
        name.partition(" = ")[0].isupper() and ast.literal_eval(why).strip().endswith(".") for name, why in rows()
    ), rows()


def test_each_row_is_used() -> None:
    told = "\n".join(path.read_text(encoding="utf-8") for path in HOME.rglob("*.py") if path != TABLE)
    names = [name.partition(" = ")[0] for name, _ in rows()]
    assert [name for name in names if told.count(name) < 2] == []
