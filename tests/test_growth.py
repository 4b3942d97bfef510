"""Nothing grows with the processes that came and went: thousands of rounds of jobs that are renewed for ever.

Memory is that of Python's objects after a search for garbage; no clock is looked at.
"""

from __future__ import annotations

import gc
import itertools
import json
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import TrendPoint
from mpmon.model import Exit, Process, QueueState, Snapshot
from mpmon.probes import syscalls
from mpmon.probes.interpreter.queues import QueueObject
from mpmon.probes.ipc import IpcProbe
from mpmon.probes.ipc.contents import Contents
from mpmon.probes.ipc.looks import Look
from mpmon.probes.ipc.queues import Place, Queue
from mpmon.probes.kernel import threads
from mpmon.probes.processes import table
from mpmon.probes.shim import ShimProbe
from mpmon.probes.stacks import StackProbe
from mpmon.session.sampler import Sampler
from mpmon.session.watch import Observer
from mpmon.snapshot_buffer import SnapshotBuffer
from mpmon.snapshot_buffer.pictures import TREE
from mpmon.tui.trends import Trends
from tests.builders import ROOT, START, blocked, holds, kernel_object, process, snapshot, stack
from tests.probes.tree import BOOTED_AT, Tree, TreeProc

KIB = 1 << 10

KEPT_EXITS = 80
"""Fewer than in life, where there are only more of the same."""


@contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """Bytes of all objects that were made since and are still there."""

    def now() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        yield now
    finally:
        tracemalloc.stop()


RESULTS = "pipe:500"


def renewed(workers: int = 5, kept_exits: int = 40) -> Iterator[Snapshot]:
    """A trainer that waits for its workers, of which two end each second and two others come."""
    pids = itertools.count(ROOT + 100)
    alive = deque[Process]()
    ended = deque[Exit](maxlen=kept_exits)
    for second in itertools.count():
        at = float(second)
        for _ in range(2 if alive else 0):
            last = alive.popleft()
            ended.append(Exit(pid=last.pid, start_time=last.start_time, seen_at=START + at, process=last))
        while len(alive) < workers:
            pid = next(pids)
            alive.append(process(pid, parent=ROOT, name="pt_data_worker", start_time=START + at))
        rows = [
            row for each in alive for row in (
                stack("main", f"data.py:{second % 50 + 1} __getitem__", "torch/utils/data/_utils/worker.py:374 _worker_loop",
                      pid=each.pid, at=at),
                blocked("openat", pid=each.pid), holds(each.pid, RESULTS, reads=False),
            )
        ]  # fmt: skip
        main = (
            process(cpu_s=1.0 + at / 10), stack("main", "multiprocessing/queues.py:113 Queue.get", "train.py:7 main", at=at),
            blocked("read", RESULTS), kernel_object(RESULTS, fill=0, capacity=65536), holds(ROOT, RESULTS, writes=False),
            QueueState(object=RESULTS, pid=ROOT, putters=tuple(each.pid for each in alive), getters=(ROOT,)),
        )  # fmt: skip
        yield snapshot(*main, *alive, *ended, *rows, at=at)


def test_the_history_of_a_job_that_is_renewed_for_ever_stays_as_large_as_it_may_be() -> None:
    most_bytes = 256 * KIB
    rounds, observer, buffer = renewed(), Observer(), SnapshotBuffer(most_bytes)
    with measured() as memory:
        sizes: list[int] = []
        # Whole trees: while one is made, some of its pictures are there as they are.
        for trees in (3, 1, 1):
            for now in itertools.islice(rounds, trees * TREE):
                buffer.add(observer.see(now))
                assert buffer.bytes <= most_bytes
            sizes.append(memory())
    assert buffer.bytes > most_bytes / 2
    assert buffer.hang() is None
    assert sizes[2] - sizes[1] < 64 * KIB, sizes


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(threads, "SYSCALLS", syscalls._X86_64)
    found = Tree(tmp_path / "proc")
    found.add(ROOT)
    return found


LOCALS = [{"name": f"count_{n}", "addr": 4096 + n, "arg": False, "repr": str(n)} for n in range(20)]

SPY = """#!/bin/sh
exec sed "s/PID/$6/" {answer}
"""


@pytest.fixture
def spy(tmp_path: Path) -> str:
    """In the place of py-spy: everybody counts in one frame."""
    frame = {"name": "count", "filename": "/home/ada/job.py", "line": 3, "locals": LOCALS}
    answer, program = tmp_path / "answer.json", tmp_path / "py-spy"
    thread = json.dumps({"thread_name": "MainThread", "frames": [frame]})
    answer.write_text(f'[{thread[:-1]}, "os_thread_id": PID}}]')
    program.write_text(SPY.format(answer=answer))
    program.chmod(0o755)
    return str(program)


def test_a_sampler_forgets_those_that_ended(tree: Tree, spy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many come and go as it remembers ends of, and twice as many again: what is made once for all is made once."""
    monkeypatch.setattr(table, "KEPT_EXITS", KEPT_EXITS)
    proc, now = TreeProc(tree.root), BOOTED_AT + 1000.0
    sampler = Sampler(
        proc, ROOT, now=lambda: now, host="host", stack_probe=StackProbe(proc, executable=spy),
        side_probes=(IpcProbe(proc), ShimProbe(proc)),
    )  # fmt: skip
    pids, alive = itertools.count(ROOT + 100), deque[int]()
    dumped = set[int]()
    with measured() as memory:
        sizes: list[int] = []
        for _ in range(3):
            for _ in range(KEPT_EXITS):
                now += 1.0
                if len(alive) == 4:
                    tree.end(alive.popleft())
                while len(alive) < 4:
                    alive.append(next(pids))
                    tree.add(alive[-1], parent=ROOT, start=int(100 * (now - BOOTED_AT)))
                for pid in alive:
                    tree.run(pid)
                sampler.look_now()
                dumped |= {row.pid for row in sampler.round().stacks}
            sizes.append(memory())
    sampler.close()
    assert len(dumped) > 3 * KEPT_EXITS - 10
    assert min(later - earlier for earlier, later in itertools.pairwise(sizes)) < 20 * KIB, sizes


def test_who_was_asked_for_its_ledger_is_forgotten_with_its_end(tree: Tree) -> None:
    parts = QueueObject("Queue", (3, 4), readers=None, writers=None, room=None, most=None)
    contents = Contents(TreeProc(tree.root), per_round=1, ledgers_per_round=1, ledgers_again_s=300.0)
    known = {RESULTS: Queue(RESULTS, ROOT, Place(3, parts), {})}
    with measured() as memory:
        sizes: list[int] = []
        for second in range(3000):
            one = process(ROOT + second)
            contents.read(known, {one.pid: Look(one.pid, 0.0)}, {one.pid: one}, float(second))
            if second in (1000, 2999):
                sizes.append(memory())
    assert sizes[1] - sizes[0] < 16 * KIB, sizes


def test_histories_forget_who_ran_before_they_begin() -> None:
    trends, moments = Trends(), deque[TrendPoint](maxlen=300)
    with measured() as memory:
        sizes: list[int] = []
        for second in range(6000):
            moments.append(TrendPoint(START + second, (), (), {ROOT + second: 100.0}))
            trends.take(tuple(moments), 1, 60)
            if second in (1000, 5999):
                sizes.append(memory())
    assert sizes[1] - sizes[0] < 64 * KIB, sizes
