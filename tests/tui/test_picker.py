"""The question which job to watch."""

from __future__ import annotations

import pytest

from mpmon.tui.picker import Picker

ROWS = [
    ("pid 41  python train.py", "9 processes"),
    ("pid 42  torchrun eval.py", "5 processes"),
    ("pid 43  python serve.py", ""),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["enter"], 0),
        (["down", "enter"], 1),
        (["j", "j", "k", "enter"], 1),
        (["up", "enter"], 2),
        (["3"], 2),
        (["9", "q"], None),
        (["escape"], None),
        (["ctrl+c"], None),
    ],
)
async def test_a_job_is_chosen_with_arrows_or_by_number(keys: list[str], chosen: int | None) -> None:
    picker = Picker(ROWS)
    async with picker.run_test() as pilot:
        await pilot.press(*keys)
    assert picker.return_value == chosen
