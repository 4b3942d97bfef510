"""Names that are not ASCII, read from the memory of every interpreter of the machine."""

from __future__ import annotations

import pytest

from mpmon.probes.files import Proc
from mpmon.probes.interpreter import Findings, look_inside
from tests.live.interpreters import VERSIONS, interpreters
from tests.live.running import Program

pytestmark = pytest.mark.live

NAMES = {"größe", "функция", "函数", "plain", "𝒇x", "half of \ufffd"}
"""Of one, two and four bytes a character; what is no character is replaced."""

LOOKS = 200


@pytest.mark.parametrize("version", VERSIONS)
def test_names_of_functions_and_children_are_read_in_any_letters(version: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    with Program("letters.py", python=python) as program:
        program.hear("child")
        found = look(program.pid)
        assert {row.function for row in found.locks if row.holds} == NAMES
        assert [(row.child, row.name) for row in found.remembered] == [(program.pids["child"], "größter 函数 𝒇")]


def look(pid: int) -> Findings:
    """A thread that comes out of the barrier may move a lock while it is read."""
    looks = (look_inside(Proc(), pid, {}) for _ in range(LOOKS))
    return next((found for found in looks if len(found.locks) == len(NAMES)), Findings())
