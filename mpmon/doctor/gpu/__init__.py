"""Which of mpmon's assumptions about GPUs hold on this machine: `mpmon doctor --gpu`.

No other processes are touched: each case starts small ones of its own, has a deadline for every wait, and ends
them.  mpmon itself never loads CUDA or torch; `programs/` do, in processes of their own.

Modules: `case` is one assumption, its result, and its test environment; `driver`, `memory`, `load`, `sharing`
and `bare` are the cases by what they need; `talking` starts programs, `watching` lets mpmon itself watch them;
`report` is the table.
`tests/gpu` runs the same cases and some more, on stand-ins where that is possible without a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from mpmon.doctor.gpu import bare, driver, load, memory, sharing
from mpmon.doctor.gpu.case import WRONG, Case, Result, World, left_out
from mpmon.doctor.gpu.report import Report, encode, line, machine_words, report, summary, torch_words
from mpmon.errors import CannotTell, MpmonError
from mpmon.model import Gpu
from mpmon.probes.nvml.wire import Look

__all__ = ["ALL", "CASES", "Confirming", "Report", "encode", "line"]

ALL: Sequence[Case] = (*driver.CASES, *memory.CASES, *load.CASES, *sharing.CASES, *bare.CASES)

SHARING = frozenset({"ipc-life", "ipc-limbo-and-collect", "ipc-consumer-killed"})
"""The time limit for the cases that share memory: each starts torch twice, and no user waits longer than some minutes."""

CASES: Sequence[Case] = tuple(case for case in ALL if case not in (*sharing.CASES, *bare.CASES) or case.name in SHARING)
"""The cases for users."""

MOST_MIB = 1536
"""Most GPU memory in use at one time: two contexts, and what a case allocates in them."""
MINUTES = 3
LONGEST_S = 300.0
"""No case starts after this many seconds."""

GIB = 1 << 30


class Confirming:
    """One run of the cases on this machine."""

    def __init__(self, world: World, cases: Sequence[Case] = CASES) -> None:
        """Query the driver.

        Raises:
            CannotTell: there is no GPU.
            MpmonError: the driver does not respond.
        """
        self._world = world
        self._cases = cases
        self._look = _look(world)
        self.results: list[Result] = []

    @property
    def machine(self) -> str:
        """Driver and GPUs in one line."""
        return machine_words(self._look)

    @property
    def torch(self) -> str:
        """The torch beside mpmon, which a process of its own imports for this: that takes seconds."""
        return torch_words(self._world.torch)

    def question(self) -> str:
        """The question to the user before GPU memory is allocated."""
        count = sum(case.takes_memory for case in self._cases)
        return (
            f"{count} more checks take up to {MOST_MIB} MiB of the first GPU for some {MINUTES} minutes, and keep it busy for "
            f"10 seconds if it is idle ({_fullness(self._look.gpus[0])})."
        )

    def run(self, allowed: Callable[[], bool]) -> Iterator[Result]:
        """All cases; `allowed` says, once, whether memory may be allocated."""
        began = time.monotonic()
        asking = [case for case in self._cases if not case.takes_memory]
        taking = [case for case in self._cases if case.takes_memory]
        yield from self._run(asking, began)
        if allowed():
            yield from self._run(taking, began)
        else:
            yield from self._keep(left_out(taking, "skipped: it allocates GPU memory, which was not allowed"))

    def report(self) -> Report:
        """All results."""
        return report(self._look, self._world.torch, self.results, standin=not self._world.computes)

    @property
    def summary(self) -> str:
        """The number of cases with each result."""
        return summary(self.results)

    @property
    def exit_status(self) -> int:
        """1 if one of mpmon's assumptions is wrong."""
        return int(any(result.verdict == WRONG for result in self.results))

    def _run(self, cases: Sequence[Case], began: float) -> Iterator[Result]:
        for case in cases:
            if time.monotonic() - began > LONGEST_S:
                yield from self._keep(left_out([case], f"skipped: the other cases took {LONGEST_S / 60:.0f} minutes"))
            else:
                yield from self._keep([case.result(self._world)])

    def _keep(self, results: Sequence[Result]) -> Sequence[Result]:
        self.results += results
        return results


def _fullness(gpu: Gpu) -> str:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    if used is None or total is None:
        return "how much of its memory is in use is not known"
    return f"{used / GIB:.1f} of {total / GIB:.1f} GiB are in use"


def _look(world: World) -> Look:
    look = world.look()
    if look.harmless or (not look.problem and not look.gpus):
        raise CannotTell(f"{look.problem or 'the driver knows no GPU'}; nothing can be confirmed here.")
    if look.problem:
        raise MpmonError(f"{look.problem}; nothing can be confirmed here.")
    return look
