"""Every case on the stand-ins, wherever it can be expressed there."""

from __future__ import annotations

import pytest

from mpmon.doctor.gpu.case import Case, World
from tests.gpu.cases import CASES
from tests.gpu.running import confirm
from tests.gpu.standins import standins

__all__ = ["standins"]


@pytest.mark.live
@pytest.mark.parametrize("case", [case for case in CASES if "work" not in case.needs], ids=lambda case: case.name)
def test_on_the_stand_ins(case: Case, standins: World, request: pytest.FixtureRequest) -> None:
    confirm(case, standins, request.node, standin=True)
