"""A node with eight ranks of four DataLoader workers each: what the screen does with more processes than it has lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import (
    Certainty,
    Diagnosis,
    Finding,
    Link,
    Place,
    ProcessView,
    Suspect,
    Verdict,
    Waiter,
)
from mpmon.model import Snapshot
from tests.builders import view
from tests.tui.fakes import NOW, TORCH, WORKER_LOOP, frame, observe, process, stack

if TYPE_CHECKING:
    from mpmon.diagnosis.findings import Observation
    from mpmon.model import Stack

LAUNCHER = 6000
RANKS = tuple(range(6010, 6090, 10))
"""Pids of the ranks; the workers of a rank have the next four, its resource tracker the fifth."""

WORKERS = 4
STUCK = RANKS[6] + 2
"""Worker 1 of rank 6."""

REDUCE = "waiting for all_reduce in step() at train.py:41"
BATCH = "waiting for next batch in step() at train.py:40"
IDLE = "idle, waits for work"


def node(*, hung: bool) -> Observation:
    """The job: at work, or waiting for one worker of rank 6."""
    snapshot = Snapshot(
        taken_at=NOW,
        root_pid=LAUNCHER,
        root_start_time=NOW - 900,
        processes=(
            process(LAUNCHER, "torchrun", ppid=1),
            *(process(pid, ppid=LAUNCHER, rss=4 << 30) for pid in RANKS),
            *(process(pid + n, ppid=pid, rss=1 << 30) for pid in RANKS for n in range(1, WORKERS + 1)),
        ),
        stacks=_stacks() if hung else (),
    )
    if not hung:
        return observe(
            snapshot,
            Diagnosis(
                verdict=Verdict.HEALTHY,
                since=NOW - 60,
                because="rank 0 is making progress (last seen running)",
                processes=_views(hung=False),
            ),
        )
    finding = _finding()
    return observe(
        snapshot,
        Diagnosis(
            verdict=Verdict.HUNG,
            since=NOW - 252,
            because=finding.summary,
            findings=(finding,),
            processes=_views(hung=True),
        ),
    )


def _views(*, hung: bool) -> tuple[ProcessView, ...]:
    views = [view(LAUNCHER, "launcher", mood="waiting", does="waits for its ranks")]
    for rank, pid in enumerate(RANKS):
        does = (BATCH if pid == RANKS[6] else REDUCE) if hung else f"running in step() at train.py:{40 + rank % 2}"
        mood = "waiting" if hung else "working"
        views.append(_view(pid, f"rank {rank}", LAUNCHER, does, mood, cpu=0.0 if hung else 97.0))
        for worker in range(WORKERS):
            at = pid + 1 + worker
            role, stuck = f"dataloader worker {worker}", hung and at == STUCK
            busy = not hung and (rank + worker) % 3 == 0
            does = "asleep in download() at dataset.py:88" if stuck else "running in read()" if busy else IDLE
            mood = "suspect" if stuck else "working" if busy else "idle"
            views.append(_view(at, role, pid, does, mood, cpu=60.0 if busy else 0.0))
    return tuple(views)


def _view(pid: int, role: str, parent: int, does: str, mood: str, *, cpu: float) -> ProcessView:
    rank = (pid - RANKS[0]) // 10
    return view(pid, role, rank=rank, local_rank=rank, world_size=8, parent=parent, does=does, mood=mood,
        cpu_percent=cpu, still_since=NOW - 252,
    )  # fmt: skip


def _finding() -> Finding:
    place = Place(function="download", file="/home/ada/cats/dataset.py", line=88)
    reduce = Place(function="step", file="/home/ada/cats/train.py", line=41)
    batch = Place(function="step", file="/home/ada/cats/train.py", line=40)
    waiting = [pid for pid in RANKS if pid != RANKS[6]]
    return Finding(
        cause="worker-stuck",
        certainty=Certainty.LIKELY,
        summary="dataloader worker 1 has been asleep for 4 min 12 s in download() at dataset.py:88; "
        "rank 0 waits for rank 6 in all_reduce",
        suspects=(Suspect(pid=STUCK, role="dataloader worker 1", rank=6, tid=STUCK, frame=place),),
        waiters=(
            Waiter(pid=LAUNCHER, role="launcher", waits_for="the end of its ranks"),
            *(Waiter(pid=p, role=f"rank {RANKS.index(p)}", waits_for="rank 6 in all_reduce") for p in waiting),
            Waiter(pid=RANKS[6], role="rank 6", waits_for="batch from dataloader worker 1"),
        ),
        chain=(
            Link(pid=RANKS[0], role="rank 0", does="all_reduce", place=reduce),
            Link(pid=RANKS[6], role="rank 6", does="next batch", place=batch),
            Link(pid=STUCK, role="dataloader worker 1", does="time.sleep", place=place),
        ),
        evidence=("dataloader worker 1 has not run for 4 min 12 s",),
        advice=("Give download() a timeout.",),
        since=NOW - 252,
    )


def _stacks() -> tuple[Stack, ...]:
    reduce = frame("all_reduce", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 3252)
    wait = frame("_try_get_data", f"{TORCH}/dataloader.py", 1131)
    found = [stack(LAUNCHER, frame("_monitor_workers", "/usr/lib/python3/dist-packages/torch/distributed/run.py", 9))]
    for pid in RANKS:
        top = (
            (wait, frame("step", "/home/ada/cats/train.py", 40))
            if pid == RANKS[6]
            else (reduce, frame("step", "/home/ada/cats/train.py", 41))
        )
        found.append(stack(pid, *top, frame("<module>", "/home/ada/cats/train.py", 60)))
        for worker in range(pid + 1, pid + 1 + WORKERS):
            idle = frame("wait", "/usr/lib/python3.11/selectors.py", 415)
            found.append(stack(worker, frame("download", line=88) if worker == STUCK else idle, WORKER_LOOP))
    return tuple(found)
