"""The pages of the manual: complete, plain text for a terminal, and true where they repeat what the program knows."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mpmon import manual
from mpmon.commands.explain import sections
from mpmon.commands.show import EXIT_STATUS
from mpmon.diagnosis.findings import Certainty
from mpmon.tui import keys
from mpmon.tui.describe.help import NOTATION
from tests.gpu import confirmed

FOLDER = Path(manual.__file__).parent
COLUMNS = 80


def test_every_page_is_listed_once() -> None:
    assert sorted(manual.TOPICS) == sorted(path.stem for path in FOLDER.glob("*.md"))


def test_no_page_hides_another() -> None:
    names = [name for pages in sections().values() for name in pages]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("topic", manual.TOPICS)
def test_a_page_is_text_for_a_terminal(topic: str) -> None:
    page = manual.page(topic)
    assert [line for line in page.splitlines() if len(line) > COLUMNS or line != line.rstrip()] == []
    assert re.findall(r"\]\(|```|<\w+>|^#", page, flags=re.MULTILINE) == [], "Markdown that does not read as text"
    assert [paragraph for paragraph in page.split("\n\n") if paragraph.count("`") % 2] == []


@pytest.mark.parametrize("topic", manual.TOPICS)
def test_a_page_begins_with_a_sentence_that_fits_into_the_list(topic: str) -> None:
    first, second = f"{manual.page(topic)}\n".splitlines()[:2]
    assert first.endswith(".")
    assert second == ""
    assert len(first) + max(map(len, manual.TOPICS)) + len("    ") <= COLUMNS


def test_every_line_of_a_table_is_as_wide_as_its_head() -> None:
    tables = [block for topic in manual.TOPICS for block in manual.page(topic).split("\n\n") if block.startswith("|")]
    assert tables
    assert [table for table in tables if len(set(map(len, table.splitlines()))) != 1] == []


def test_the_exit_statuses_are_those_of_the_program() -> None:
    rows = {
        int(status): words
        for status, words in re.findall(r"^\| (\d) +\| (.+) \|$", manual.page("reports"), re.MULTILINE)
    }

    assert "hung" in rows[EXIT_STATUS["hung"]]
    assert "could not tell" in rows[EXIT_STATUS["unknown"]]
    assert "no hang" in rows[EXIT_STATUS["healthy"]]
    assert "slow" in rows[EXIT_STATUS["slow"]]


def test_the_certainties_are_those_of_the_program() -> None:
    told = re.findall(r"^\| (\w+) +\|", manual.page("how-it-decides"), re.MULTILINE)
    assert told == ["certainty", *(certainty.value for certainty in Certainty)]


def test_the_keys_are_those_of_the_screen() -> None:
    shown = {key for row in (*keys.APP_KEYS, *keys.MAIN_KEYS) for key in row.shown.split()}
    told = re.findall(r"^- `(\S+)`: ", manual.page("screen"), re.MULTILINE)
    assert len(told) > 5
    assert set(told) <= shown


def test_the_notation_is_that_of_the_page_of_keys() -> None:
    page = manual.page("screen")
    assert [sign for sign, _ in NOTATION if sign not in page] == []


def test_what_is_said_of_gpus_is_what_files_say() -> None:
    """`MPMON_UPDATE_GOLDENS=1` writes these entries anew."""
    path = FOLDER / "confirmed.md"
    said = re.compile(rf"(?:^{re.escape(confirmed.BEGIN)}.*\n(?:  .*\n)*)+", re.MULTILINE)
    if os.environ.get("MPMON_UPDATE_GOLDENS") == "1":
        path.write_text(said.sub(lambda _: confirmed.written(), path.read_text(encoding="utf-8")), encoding="utf-8")

    assert said.findall(path.read_text(encoding="utf-8")) == [confirmed.written()]
