"""The host memory of a process grows with each CUDA tensor it receives.

What it looks like: resident memory of a consumer rises for hours, although it keeps no tensor; in the end the kernel kills
it.
Why: torch opens an event for each transfer it receives and never closes it (pytorch issue 27975); or the program keeps
something of each item.
What to do: receive fewer and larger tensors (torch.cat before put); keep one shared buffer and send only its index; restart
the consumer from time to time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mpmon.diagnosis.findings import Remark, TrendPoint
from mpmon.diagnosis.humanize import age, size
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-receiver-grows"

SPAN_S = 120.0
"""Growth over less time may be start-up."""

FEWEST_MOMENTS, FEWEST_RECEIVED = 12, 1000

GROWTH_BYTES = 64 << 20

EACH_THIRD = 0.15
"""Minimum share of the growth in each third of the time."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each process."""
    last = job.history.trend[-1] if job.history.trend else None
    for pid in last.received if last else ():
        moments = [moment for moment in job.history.trend if pid in moment.received]
        if _is_long(moments) and _grows(values := [moment.received[pid] for moment in moments]):
            yield _remark(job, pid, values, moments[-1].taken_at - moments[0].taken_at)


def _is_long(moments: Sequence[TrendPoint]) -> bool:
    return len(moments) >= FEWEST_MOMENTS and moments[-1].taken_at - moments[0].taken_at >= SPAN_S


def _grows(values: Sequence[tuple[int, int]]) -> bool:
    """The process received tensors and grew in each third of the time."""
    third = len(values) // 3
    corners = (values[0], values[third], values[2 * third], values[-1])
    received, growth = values[-1][0] - values[0][0], values[-1][1] - values[0][1]
    parts = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(corners)]
    return (
        received >= FEWEST_RECEIVED
        and growth >= GROWTH_BYTES
        and all(got > 0 and grown >= EACH_THIRD * growth for got, grown in parts)
    )


def _remark(job: JobState, pid: int, values: Sequence[tuple[int, int]], seconds: float) -> Remark:
    received, growth = values[-1][0] - values[0][0], values[-1][1] - values[0][1]
    return Remark(
        topic=TOPIC, pids=(pid,),
        summary=f"{job.ipc.ground.who(pid)} grows on the host by {size(growth / received)} with each transfer of CUDA memory it "
        f"receives: {size(growth)} in {age(seconds)}, {received} transfers",
        evidence=(f"its shim counts {values[-1][0]} received, and {size(values[-1][1])} are resident",),
        advice=(
            "torch opens an event for each transfer it receives and never closes it: send fewer, larger tensors.",
            "Or share one buffer once and send its index; or restart the consumer from time to time.",
        ),
    )  # fmt: skip
