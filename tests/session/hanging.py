"""A recorded job that works for ten seconds and then hangs for more than OPEN_PATIENCE_S."""

from __future__ import annotations

from pathlib import Path

from mpmon.model import Snapshot
from mpmon.session.recording import Recorder
from tests.builders import ROOT, after, blocked, holds, kernel_object, process, snapshot, stack

WORKER, BATCHES = 4121, "pipe:500"
WORKS, HANGS = 10, 40
"""Rounds, a second each."""


def hanging() -> list[Snapshot]:
    """The trainer reads batches from a pipe; its only worker stops in `open`."""
    now = snapshot(
        process(), process(WORKER, parent=ROOT, name="pt_data_worker"),
        stack("main", "multiprocessing/queues.py:113 Queue.get", "torch/utils/data/dataloader.py:1291 _try_get_data",
              "train.py:7 main"),
        stack("main", "data.py:20 __getitem__", "torch/utils/data/_utils/worker.py:374 _worker_loop", pid=WORKER),
        blocked("read", BATCHES), kernel_object(BATCHES, fill=0, capacity=65536), holds(ROOT, BATCHES, writes=False),
        blocked("openat", pid=WORKER), holds(WORKER, BATCHES, reads=False),
    )  # fmt: skip
    found = [now]
    for second in range(1, WORKS + HANGS):
        now = after(now, 1.0, ran=[ROOT, WORKER] if second < WORKS else [])
        found.append(now)
    return found


def record(path: Path) -> Path:
    """Write it."""
    with Recorder(path) as recorder:
        for each in hanging():
            recorder.write(each)
    return path
