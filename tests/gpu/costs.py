"""What the shim costs a CUDA tensor that goes through a queue, as `tests.benchmarks.shim` measures it."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from statistics import median

from mpmon.doctor.gpu.case import Case, Need, Seen, World, Wrong
from tests.patience import ran
from tests.shim.running import HOME

SECONDS, STANDINS_SECONDS = "10", "2"
"""How long a case is measured; of a stand-in only whether it can be measured matters."""
LONGEST_S = 180.0
KEPT = (2000, 12000)
"""More than torch has events for (CUDA_IPC_MAXIMUM_EVENTS_TO_USE), and than there are counts in one file
(CUDA_IPC_REF_COUNTER_FILE_SIZE).
"""
MOST_US = 100.0
"""CPU time of both processes, for each tensor; the stand-in's takes about 30."""


def shim(world: World, *, kept: int = 0) -> Seen:
    """Beside so many that are kept."""
    case, seconds = ("cuda-tensor", SECONDS) if world.computes else ("device-tensor", STANDINS_SECONDS)
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="mpmon-gpu-") as folder:
        try:
            done = ran(
                [sys.executable, "-m", "tests.benchmarks.shim_blocks", case, seconds, str(kept)], cwd=HOME,
                env={**os.environ, "MPMON_RUN_DIR": folder, "OMP_NUM_THREADS": "1"}, seconds=LONGEST_S,
            )  # fmt: skip
        except AssertionError as problem:
            raise Wrong("a time for each tensor", "none", str(problem)) from problem
        if done.returncode:
            raise Wrong("a time for each tensor", f"none: status {done.returncode}", _reason(done.stderr))
    said = json.loads(done.stdout)
    off = median(said["off"])
    more = median(on - bare for bare, on in zip(said["off"], said["on"], strict=True))
    if world.computes and more > MOST_US:  # how fast a stand-in is, is nobody's business
        raise Wrong(f"at most {MOST_US:g} us of CPU more a tensor", f"{more:.1f} us more than {off:.1f}")
    return Seen(
        f"{more:.1f} us of CPU more than {off:.1f} a tensor", {"bare_us": round(off, 1), "more_us": round(more, 1)}
    )


def _reason(said: str) -> str:
    """The last exception that was told; what torch tells of C++ frames comes behind it."""
    told = [line for line in said.splitlines() if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return "; ".join(told[-2:]) or said.strip()[-400:]


_TORCH: frozenset[Need] = frozenset({"memory", "torch"})

CASES: Sequence[Case] = (
    Case(
        "shim-cost",
        f"The shim costs a CUDA tensor at most {MOST_US:g} us of CPU.",
        shim,
        _TORCH,
    ),
    *(
        Case(
            f"shim-cost-{kept}",
            f"It costs no more while {kept} are kept on both sides.",
            partial(shim, kept=kept),
            _TORCH,
        )
        for kept in KEPT
    ),
)
