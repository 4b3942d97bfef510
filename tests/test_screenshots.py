"""The pictures beside the README: each is drawn by the script that says so, from a recording."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "screenshots"


@pytest.fixture(scope="module")
def drawing() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "draw.py"))


def test_there_is_no_picture_that_nobody_draws(drawing: dict[str, Any]) -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == {*drawing["SCREENS"], *drawing["REPORTS"]}


@pytest.mark.parametrize("name", ["hung-dataloader-80x24", "cuda-ipc"])
def test_a_screen_is_drawn(name: str, drawing: dict[str, Any]) -> None:
    svg = drawing["draw_screen"](drawing["SCREENS"][name])
    assert re.search("HUNG", svg)


def test_a_report_is_drawn(drawing: dict[str, Any]) -> None:
    assert "HUNG" in drawing["draw_report"](drawing["REPORTS"]["report"])
