"""What is known of libraries: rows in files, and nothing anywhere else that would have to be touched for one more."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import mpmon
from mpmon.diagnosis.libraries import LIBRARIES, WAITS
from mpmon.diagnosis.libraries.rows import WaitRow

TRAYRUN = '''
"""A library that nobody has heard of."""

from mpmon.diagnosis.libraries.rows import Context, Library, Wait, WorkerRow, functions, waits

LIBRARY = Library(
    waits=(
        waits(Wait.POOL_RESULT, "trayrun/client.py", "collect", "its trays"),
        waits(Wait.POOL_TASK, "trayrun/oven.py", "next_order", "orders"),
        waits(Wait.LAUNCHER, "trayrun/launch.py", "watch", "its ranks"),
    ),
    runs=((Context.POOL_WORKER, functions("trayrun/oven.py", "bake_forever")),),
    understood=("trayrun",),
    workers=(WorkerRow("baker", functions("trayrun/oven.py", "bake_forever"), process_name="baker"),),
    launchers=("trayrun",),
    rank_threads=frozenset({"tray-ring"}),
)
'''


def told(folder: Path) -> list[str]:
    """What is said of the hang by the mpmon of a folder."""
    where = os.pathsep.join((str(folder), str(Path(__file__).parents[2])))
    command = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", "-m", "tests.diagnosis.made_up_library"]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": where}, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_file_of_rows_is_all_that_a_new_library_takes(tmp_path: Path) -> None:
    shutil.copytree(
        Path(mpmon.__file__).parent, tmp_path / "mpmon", ignore=shutil.ignore_patterns("__pycache__", "*.md")
    )
    assert "4122 baker 1" not in told(tmp_path)
    (tmp_path / "mpmon/diagnosis/libraries/trayrun.py").write_text(TRAYRUN)
    *roles, cause, summary, chain = told(tmp_path)
    assert roles == ["4100 launcher", "4110 rank 0", "4121 baker 0", "4122 baker 1"]
    assert cause == "io-wait"
    assert summary.startswith(
        "baker 1 has been waiting for 1 min 3 s at job.py:31 in knead for something outside the job;"
    )
    assert chain.startswith("launcher: its ranks -> rank 0: its trays -> baker 1: data from a socket -> outside")


def _package(row: WaitRow) -> str:
    return row.file.partition("/")[0].removesuffix(".py")


def _defines(file: Path, functions: frozenset[str]) -> bool:
    source = file.read_text() if file.is_file() else ""
    return any(f"def {function}(" in source for function in functions)


def test_no_two_rows_tell_of_the_same_function() -> None:
    """But for rows of one library that also look at what was called: of these the first that fits counts."""
    counted = Counter(
        (row.file, name) for library in LIBRARIES for row in set(library.waits) for name in row.functions
        if row.called is None
    )  # fmt: skip
    assert [which for which, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("package", sorted({_package(row) for row in WAITS}))
def test_an_installed_library_has_functions_that_rows_name(package: str) -> None:
    """One that has moved its files would no longer be recognised; rows for its earlier versions may stay."""
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or not spec.origin:
        pytest.skip("it is not installed, or its rows fit any folder")
    root = Path(spec.origin).parents[1 if spec.submodule_search_locations else 0]
    rows = [row for row in WAITS if _package(row) == package]
    assert any(_defines(root / row.file, row.functions) for row in rows)


def test_every_file_has_something_to_say() -> None:
    assert WAITS
    assert all(any(getattr(library, name) for name in library.__struct_fields__) for library in LIBRARIES)
