"""Matches of regular expressions that do not end, in every known version."""

from __future__ import annotations

import subprocess

import pytest

from mpmon.probes.files import Proc
from mpmon.probes.interpreter import look_inside
from tests.live.interpreters import VERSIONS, interpreters

TEXT = "a" * 60 + "!"

WAYS = {
    "method": "os.write(1, b'x'); PATTERN.search(text)",
    "module": "os.write(1, b'x'); re.match(PATTERN.pattern, text)",
    "bytes": "os.write(1, b'x'); re.compile(rb'^(\\w+\\s?)+$').sub(b'', text.encode())",
    "after": "PATTERN.search('a'); os.write(1, b'x'); pow(7, 1 << 30)",
}

PROGRAM = """
import os, re
PATTERN = re.compile(r"^(\\w+\\s?)+$")
def match(text):
    {way}
match({text!r})
"""


def matching(version: str, way: str, looks: int) -> int | None:
    """The length of the text that a program matches, once it has said that it is about to; `None` if no look finds a match."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    program = PROGRAM.format(way=WAYS[way], text=TEXT)
    with subprocess.Popen([python, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.read(1) == b"x"
            found = (look_inside(Proc(), process.pid, {}, looping=[process.pid]).matching for _ in range(looks))
            return next((row[process.pid] for row in found if row), None)
        finally:
            process.kill()


@pytest.mark.parametrize("way", ["method", "module", "bytes"])
@pytest.mark.parametrize("version", VERSIONS)
def test_how_long_the_text_of_a_match_is(version: str, way: str) -> None:
    assert matching(version, way, looks=2000) == len(TEXT)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_match_that_is_over_is_none(version: str) -> None:
    assert matching(version, "after", looks=50) is None
