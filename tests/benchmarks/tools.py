"""The programs that are compared, how they are called, and what they see of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests import nvml
from tests.benchmarks.job import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

GPUS = 8
"""Devices of the stand-in."""
WORD = "{pid}"
JOB_WORD = "tests.benchmarks."
"""What stands in the command line of every process of the job and of no other."""


@dataclass(frozen=True)
class Tool:
    """One program with a screen."""

    name: str
    arguments: tuple[str, ...]
    """What follows the program's name; `WORD` stands for the job's root."""
    program: tuple[str, ...]
    needs_nvml: bool = False

    def command(self, pid: int) -> list[str]:
        """Tell how to call it on a job."""
        return [*self.program, *(word.replace(WORD, str(pid)) for word in self.arguments)]


@dataclass(frozen=True)
class Setting:
    """Where programs run: a folder that ends with the run, and the environment they get."""

    folder: Path
    nvml_problem: str | None
    """Why there is no stand-in for NVML, `None` if there is one."""

    def environment(self, pids: Sequence[int] = (), on_gpus: int = GPUS) -> dict[str, str]:
        """Tell the environment of a program; so many of `pids` are dealt to the stand-in's devices in turn.

        htop writes down at its end how it was called; each program starts without such memories.
        """
        settings = self.folder / "htoprc"
        settings.unlink(missing_ok=True)
        machine = nvml.Scenario(gpus=GPUS).moving()
        for number, pid in enumerate(pids[:on_gpus]):
            machine.process(gpu=number % GPUS, pid=pid, sm=50)
        scenario = self.folder / "gpus"
        machine.write(scenario)
        kept = {key: value for key, value in os.environ.items() if key not in ("LINES", "COLUMNS")}
        own = {name: str(self.folder / name) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")}
        plain = {**kept, **own, "TERM": "xterm-256color", "HTOPRC": str(settings)}
        return nvml.environment(scenario, self.folder, plain)

    def problem(self, tool: Tool) -> str | None:
        """Tell why a program cannot be measured here, `None` if it can."""
        if not tool.program:
            return "not installed"
        if tool.needs_nvml and self.nvml_problem is not None:
            return self.nvml_problem
        return None


def set_up(folder: Path) -> Setting:
    """Compile the stand-in for NVML into the folder."""
    try:
        nvml.build(folder)
    except nvml.NoCompiler as problem:
        return Setting(folder, str(problem))
    return Setting(folder, None)


@cache
def program(name: str) -> tuple[str, ...]:
    """Find a program, first beside the interpreter; empty if it is not installed."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return () if found is None else (found,)


@cache
def mpmon() -> tuple[str, ...]:
    """Tell how to call mpmon from this folder; empty if it does not start."""
    command = (sys.executable, "-m", "mpmon")
    done = subprocess.run([*command, "--version"], cwd=ROOT, capture_output=True, check=False)
    return command if done.returncode == 0 else ()


def mpmon_live() -> Tool:
    """Return mpmon's screen on the job, a look a second."""
    return Tool("mpmon", (WORD,), mpmon())


def gpu_screens() -> list[Tool]:
    """Return the programs that show who is on which GPU, mpmon first, each with a look a second."""
    return [
        Tool("mpmon", (WORD,), mpmon(), needs_nvml=True),
        nvitop(),
        Tool("gpustat", ("--interval", "1", "-cup"), program("gpustat"), needs_nvml=True),
    ]


def nvitop() -> Tool:
    """Return nvitop's screen, a look a second."""
    return Tool("nvitop", ("--interval", "1"), program("nvitop"), needs_nvml=True)


def screens() -> list[Tool]:
    """Return the programs whose screen shows the job, mpmon first, each with a look a second.

    htop is told to show the job alone, because a quiet job is not on the first page of a busy machine;
    it reads the whole machine all the same and costs as much.
    """
    return [
        mpmon_live(),
        nvitop(),
        Tool("htop", ("-d", "10", "--filter", JOB_WORD), program("htop")),
        Tool("top", ("-d", "1"), program("top")),
    ]
