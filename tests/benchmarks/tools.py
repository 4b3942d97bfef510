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

from tests.benchmarks.job import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

NVML_SOURCE = Path(__file__).parent / "nvml" / "nvml.c"
GPU_PIDS = 8
"""So many processes of the job are on the stand-in's eight devices."""
WORD = "{pid}"
JOB_WORD = "tests.benchmarks.job"
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

    def environment(self, pids: Sequence[int] = ()) -> dict[str, str]:
        """Tell the environment of a program; the first of `pids` are put on the stand-in's devices.

        htop writes down at its end how it was called; each program starts without such memories.
        """
        settings = self.folder / "htoprc"
        settings.unlink(missing_ok=True)
        listed = self.folder / "gpu_pids"
        listed.write_text("\n".join(str(pid) for pid in pids[:GPU_PIDS]))
        kept = {key: value for key, value in os.environ.items() if key not in ("LINES", "COLUMNS")}
        own = {name: str(self.folder / name) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")}
        return {
            **kept,
            **own,
            "TERM": "xterm-256color",
            "HTOPRC": str(settings),
            "BENCHMARK_GPU_PIDS": str(listed),
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(self.folder), os.environ.get("LD_LIBRARY_PATH")])),
        }

    def problem(self, tool: Tool) -> str | None:
        """Tell why a program cannot be measured here, `None` if it can."""
        if not tool.program:
            return "not installed"
        if tool.needs_nvml and self.nvml_problem is not None:
            return self.nvml_problem
        return None


def set_up(folder: Path) -> Setting:
    """Compile the stand-in for NVML into the folder."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return Setting(folder, "no C compiler for the stand-in of NVML")
    library = folder / "libnvidia-ml.so.1"
    done = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(NVML_SOURCE)], capture_output=True, check=False
    )
    return Setting(folder, None if done.returncode == 0 else "the stand-in of NVML does not compile")


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


def screens() -> list[Tool]:
    """Return the programs whose screen shows the job, mpmon first, each with a look a second.

    htop is told to show the job alone, because a quiet job is not on the first page of a busy machine;
    it reads the whole machine all the same and costs as much.
    """
    return [
        mpmon_live(),
        Tool("nvitop", ("--interval", "1"), program("nvitop"), needs_nvml=True),
        Tool("htop", ("-d", "10", "--filter", JOB_WORD), program("htop")),
        Tool("top", ("-d", "1"), program("top")),
    ]
