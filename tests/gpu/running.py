"""Run one case as one test."""

from __future__ import annotations

import pytest

from mpmon.doctor.gpu.case import NOT_HERE, WRONG, Case, World
from tests.gpu.table import told


def confirm(case: Case, world: World, node: pytest.Item, *, standin: bool) -> None:
    """It fails when it is wrong, and is skipped when it cannot be found out here."""
    result = case.result(world)
    told(node, world, result, standin=standin)
    if result.verdict == WRONG:
        pytest.fail(f"{result.confirms} {result.words} {result.detail}", pytrace=False)
    if result.verdict == NOT_HERE:
        pytest.skip(result.words)
