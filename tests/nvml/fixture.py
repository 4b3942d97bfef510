"""The fixture `nvml`: the library, built once, and a scenario of the test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.nvml import NoCompiler, Scenario, build, environment


@dataclass(frozen=True)
class Standin:
    """A machine whose driver says what the test says."""

    folder: Path
    """Of the stand-in for NVML."""
    scenario: Path

    def say(self, scenario: Scenario) -> Scenario:
        """From now on the driver says this."""
        return scenario.write(self.scenario)

    @property
    def environment(self) -> dict[str, str]:
        """For programs that are to see this machine."""
        return environment(self.scenario, self.folder)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in for NVML, without which these tests cannot run."""
    try:
        return build(tmp_path_factory.mktemp("nvml"))
    except NoCompiler as problem:
        pytest.skip(str(problem))


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    """A stand-in that processes started by the test see too."""
    standin = Standin(nvml_library, tmp_path / "scenario")
    for name in ("NVML_SCENARIO", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, standin.environment[name])
    standin.say(Scenario())
    yield standin
    assert os.environ["NVML_SCENARIO"] == str(standin.scenario)
