"""Every case on the GPU of this machine; skipped where there is none. One file, so that they run one after the other."""

from __future__ import annotations

import pytest

from mpmon.doctor.gpu.case import Case, World
from tests.gpu.cases import CASES
from tests.gpu.running import confirm


@pytest.fixture(scope="module")
def world() -> World:
    """This machine."""
    world = World()
    look = world.look()
    if not look.gpus:
        pytest.skip(look.problem or "the driver knows no GPU")
    return world


@pytest.mark.live
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_on_the_gpu(case: Case, world: World, request: pytest.FixtureRequest) -> None:
    confirm(case, world, request.node, standin=False)
