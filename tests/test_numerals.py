"""What is a number, and what only looks like one."""

from __future__ import annotations

import pytest

from mpmon.numerals import numeral


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("17", 17), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_a_number(text: str, number: int) -> None:
    assert numeral(text) == number


@pytest.mark.parametrize("text", ["", " 1", "-1", "+1", "1.5", "1_0", "²", "٣", "x", "9" * 19, "9" * 5000])
def test_no_number(text: str) -> None:
    assert numeral(text) is None
