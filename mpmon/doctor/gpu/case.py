"""One assumption to confirm on a machine with a GPU, and its result.

A case is a function that takes a `World`, starts processes of its own there, and compares what it sees with what mpmon
assumes. It returns what it saw, or raises `Wrong` or `NotHere`; any other exception is a defect of the case, and counts
as wrong, because nothing was confirmed.

A case's result consists of its own words and of numbers: it goes into a file that people send to others. Names, paths
and the output of other programs go only into `Result.detail`, which goes to the screen.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

from mpmon.probes.nvml.child import look_once
from mpmon.probes.nvml.wire import Look

CONFIRMED, WRONG, NOT_HERE = "confirmed", "wrong", "not applicable here"

Verdict = Literal["confirmed", "wrong", "not applicable here"]
Need = Literal["memory", "torch", "work"]
"""What a case needs beside the driver: GPU memory, a torch with CUDA, a GPU that computes."""

ANSWER_S = 20.0
"""Time limit for each answer of the driver: without persistence mode it wakes the GPUs first."""


class Wrong(Exception):
    """An assumption of mpmon's does not hold."""

    def __init__(self, expected: str, seen: str, detail: str = "") -> None:
        super().__init__(f"expected {expected}; seen: {seen}")
        self.detail = detail


class NotHere(Exception):
    """It cannot be checked on this machine; the message says why."""


@dataclass(frozen=True)
class Seen:
    """What a case saw, as expected."""

    words: str
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    """By name, with the unit in it: `process_mib`."""


@dataclass(frozen=True)
class Result:
    """The result of a case."""

    name: str
    confirms: str
    verdict: Verdict
    words: str
    figures: Mapping[str, float]
    seconds: float
    detail: str = ""
    """For the screen: may contain names and paths."""


class World:
    """Where cases run: this machine's driver, and the module that makes tensors on its GPU."""

    def __init__(self, *, tensors: str = "mpmon.doctor.gpu.programs.cuda", computes: bool = True) -> None:
        """`tensors` names the module for programs that share memory; a stand-in GPU does not compute."""
        self.tensors = tensors
        self.computes = computes

    def look(self) -> Look:
        """What the driver says now."""
        return look_once(ANSWER_S)

    @property
    def torch(self) -> str | None:
        """The version of the torch in mpmon's environment; `None` without one that has CUDA."""
        return _torch(self.tensors)

    @cached_property
    def smi(self) -> str | None:
        """The path of nvidia-smi."""
        return shutil.which("nvidia-smi")


@cache
def _torch(tensors: str) -> str | None:
    """What the module that makes tensors says; asked once, because a first import of torch takes long."""
    from mpmon.doctor.gpu.talking import Program, Silent

    try:
        with Program("mpmon.doctor.gpu.programs.shares", "about", tensors) as program:
            version = program.hear()["torch"]
    except Silent:
        return None
    return version if isinstance(version, str) else None


@dataclass(frozen=True)
class Case:
    """One assumption to confirm."""

    name: str
    confirms: str
    """In one sentence."""
    run: Callable[[World], Seen]
    needs: frozenset[Need] = frozenset()

    def result(self, world: World) -> Result:
        """Run it, and turn every outcome into a result."""
        began = time.monotonic()
        verdict, seen, detail = self._outcome(world)
        seconds = round(time.monotonic() - began, 1)
        return Result(self.name, self.confirms, verdict, seen.words, seen.figures, seconds, detail)

    def _outcome(self, world: World) -> tuple[Verdict, Seen, str]:
        try:
            if lacking := self._lacking(world):
                return NOT_HERE, Seen(lacking), ""
            return CONFIRMED, self.run(world), ""
        except NotHere as why:
            return NOT_HERE, Seen(str(why)), ""
        except Wrong as problem:
            return WRONG, Seen(str(problem)), problem.detail
        except Exception as defect:
            return WRONG, Seen("the case did not finish"), repr(defect)

    def _lacking(self, world: World) -> str:
        """Why it cannot run here; empty if it can."""
        if "work" in self.needs and not world.computes:
            return "a stand-in computes nothing"
        if "torch" in self.needs and world.torch is None:
            return "mpmon's environment has no torch with CUDA"
        return ""

    @property
    def takes_memory(self) -> bool:
        """It allocates GPU memory."""
        return bool(self.needs)


def left_out(cases: Sequence[Case], why: str) -> list[Result]:
    """Results of cases that were not run."""
    return [Result(case.name, case.confirms, NOT_HERE, why, {}, 0.0) for case in cases]
