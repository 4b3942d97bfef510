"""What goes over a pipe is the same with the shim, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shim.running import files, run


def test_bytes_of_queues_and_pools(tmp_path: Path) -> None:
    without = run("wire.py", "fork", folder=None)
    with_it = run("wire.py", "fork", folder=tmp_path)
    assert without.said == with_it.said
    assert len(without.said.split()[-1]) == 64
    assert files(tmp_path)


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_tensors_are_pickled_alike(strategy: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    without = run("tensors.py", strategy, folder=None)
    with_it = run("tensors.py", strategy, folder=tmp_path)
    assert without.said == with_it.said
    assert "rebuild" in without.said


def test_handles_of_cuda_memory_are_pickled_alike_with_the_standin(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    without = run("device_tensors.py", "pickle", folder=None)
    with_it = run("device_tensors.py", "pickle", "shim", folder=None, MPMON_RUN_DIR=str(tmp_path))
    assert without.said == with_it.said
    assert "rebuild_cuda_tensor" in without.said
    assert sum(len(file.exports) for file in files(tmp_path).values()) == 1
