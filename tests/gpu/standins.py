"""The fixture `standins`: a machine whose driver, CUDA and shared memory are ours."""

from __future__ import annotations

import os

import pytest

from mpmon.doctor.gpu.case import World
from tests.nvml import CUDA, Scenario, recorded
from tests.nvml.fixture import Standin

TENSORS = "tests.gpu.tensors"


@pytest.fixture
def standins(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world for cases, seen by all processes that the test starts; its driver says what that of an H100 said."""
    nvml.say(Scenario(gpus=2, **recorded("h100")))
    folders = [str((nvml.folder / CUDA).parent), os.environ["LD_LIBRARY_PATH"]]
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(folders))
    return World(tensors=TENSORS, computes=False)
