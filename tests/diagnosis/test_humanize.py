"""Numbers as people say them."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.edges.deaths import exit_words
from mpmon.diagnosis.humanize import age, amount, several


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s"), (0, "0 s"), (4.9, "4 s"), (59.9, "59 s"), (60, "1 min"), (252, "4 min 12 s"), (3600, "1 h"),
        (3659, "1 h"), (11100, "3 h 5 min"), (86400, "1 d"), (187200, "2 d 4 h"),
    ],
)  # fmt: skip
def test_age(seconds: float, words: str) -> None:
    assert age(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (40, "40 s"), (100, "100 s"), (300, "5 min"), (7200, "2 h"), (82800, "23 h"), (200000, "2 days")],
)
def test_amount(seconds: float, words: str) -> None:
    assert amount(seconds) == words


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c"),
        (list("abcd"), "a, b, c and d"), (list("abcdef"), "a, b, c and 3 more"),
    ],
)  # fmt: skip
def test_several(names: list[str], words: str) -> None:
    assert several(names) == words


@pytest.mark.parametrize(
    ("status", "words"),
    [(None, "ended"), (0, "ended with exit status 0"), (256, "ended with exit status 1"), (9, "killed by SIGKILL (9)"),
     (0x8B, "killed by SIGSEGV (11), which left a core dump"), (33, "killed by signal 33")],
)  # fmt: skip
def test_how_a_process_ended(status: int | None, words: str) -> None:
    assert exit_words(status) == words
