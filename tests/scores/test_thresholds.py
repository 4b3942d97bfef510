"""What hangs on a threshold is really tried."""

from __future__ import annotations

from mpmon.diagnosis import thresholds
from tests.hangs.expected import cases
from tests.scores.thresholds import HUGE, effect


def test_another_number_says_something_else_and_the_same_one_does_not() -> None:
    some = cases()[::10]
    assert effect("PATIENCE_S", HUGE, some)
    assert not effect("PATIENCE_S", thresholds.PATIENCE_S, some)
