"""What a user sees of CUDA memory while consumers let go of it: on the screen, of a job that runs, stands still, or hangs.

With the stand-in of `standin.py`, and the shim as `mpmon run` puts it in.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("textual")

from textual.pilot import Pilot

from mpmon.diagnosis import History, diagnose
from mpmon.diagnosis.findings import Observation
from mpmon.diagnosis.state.job_state import JobState
from tests.ipc.looking import Looking, looking_at
from tests.ipc.running import PROGRAMS, Job, stop
from tests.shim.running import HOME, environment
from tests.talking import Talking, run_by_mpmon
from tests.tui.fakes import FakeWatch
from tests.tui.screens import LARGE, SMALL, play, screen_text_of, settle

pytestmark = pytest.mark.live

SIZES = (SMALL, LARGE)


@contextlib.contextmanager
def blocks_by_mpmon(folder: Path) -> Iterator[tuple[Talking, dict[str, Any]]]:
    """`mpmon run -- python blocks.py fork`, which holds three blocks of 1 MiB."""
    command = run_by_mpmon(str(PROGRAMS / "blocks.py"), "fork")
    with Talking(command, environment(None, PYTHONPATH=str(HOME), MPMON_RUN_DIR=str(folder))) as running:
        heard = running.hear()
        running.order("send 3 1048576")
        yield running, heard


def let_go(child: int) -> None:
    """The consumer drops the block that it got last."""
    os.kill(child, signal.SIGUSR1)


def held(looking: Looking, blocks: int) -> JobState:
    """So many are held, and nothing else is out."""
    return looking.until(lambda job: [view.state for view in job.ipc.exports] == ["held"] * blocks)


def drawn(job: JobState, size: tuple[int, int], *keys: str) -> str:
    """The first screen of somebody who comes now, after some keys."""
    seen = Observation(snapshot=job.snapshot, diagnosis=diagnose(History().add(job.snapshot)), watched_s=0.0)
    screens: list[str] = []

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press(*keys)
        await settle(pilot)
        screens.append(screen_text_of(pilot))

    play(FakeWatch(seen), script, size=size, first="blocks.py")
    return screens[0]


def row(screen: str, word: str) -> str:
    """The line of the list that begins so."""
    (line,) = [line for line in screen.splitlines() if line[2:].startswith(word)]
    return line


def test_standin_rows_fall_as_the_consumer_lets_go(tmp_path: Path) -> None:
    with blocks_by_mpmon(tmp_path) as (_, heard), looking_at(heard["pid"]) as looking:
        for blocks in (3, 2, 1):
            job = held(looking, blocks)
            (pair,) = job.ipc.pairs
            assert (pair.producer, pair.consumer, pair.blocks, pair.bytes) == (
                heard["pid"],
                heard["child"],
                blocks,
                blocks << 20,
            )
            for size in SIZES:
                line = row(drawn(job, size), "CUDA memory")
                assert f" {blocks} " in line
                assert f"{blocks}.0M" in line
                # Once they are a few seconds old, their age takes the room of the last word.
                assert "main → child of" in line
            let_go(heard["child"])
        job = held(looking, 0)
        assert all("CUDA memory" not in drawn(job, size) for size in SIZES)


def wait_until_it_holds_the_gil(pid: int) -> None:
    """Its main thread is in pause(2), called without giving the GIL back."""
    while "pause" not in Path(f"/proc/{pid}/wchan").read_text(encoding="utf-8"):
        assert psutil.pid_exists(pid)


@pytest.mark.parametrize("state", ["stopped", "holds the GIL"])
def test_standin_counts_are_live_though_the_producer_cannot_answer(state: str, tmp_path: Path) -> None:
    with blocks_by_mpmon(tmp_path) as (running, heard):
        if state == "stopped":
            stop(heard["pid"])
        else:
            running.tell("hold")
            wait_until_it_holds_the_gil(heard["pid"])
        # Somebody who comes now, and has seen nothing of the time before.
        with looking_at(heard["pid"]) as looking:
            held(looking, 3)
            let_go(heard["child"])
            job = held(looking, 2)
            assert [view.refcount for view in job.ipc.exports] == [1, 1]
            # And when nobody runs any more.
            stop(heard["child"])
            job = held(looking, 2)
            assert all("2.0M" in row(drawn(job, size), "CUDA memory") for size in SIZES)


def test_standin_without_the_shim_the_counts_are_raw_and_the_page_says_what_is_missing() -> None:
    with Job("blocks.py", "fork") as running, looking_at(running.pid) as looking:
        heard = running.hear()
        running.order("send 3 1048576")
        job = looking.until(lambda job: [view.exports for view in job.ipc.exports] == [3])
        (view,) = job.ipc.exports
        assert (view.producer, view.refcount, view.size_bytes) == (running.pid, 1, None)
        (queue,) = [queue for queue in job.ipc.queues if queue.producers == (running.pid,) and queue.kind == "Queue"]
        assert (queue.depth, queue.puts) == (0, None)
        assert job.ipc.memory
        assert sum(row.storages for row in job.ipc.memory.by_process) >= 6
        for size in SIZES:
            assert " 3 " in row(drawn(job, size), "CUDA memory")
            # With room for what others on this machine may have left behind, which comes before.
            page = " ".join(drawn(job, (size[0], 200), "i").split())
            assert "start the job with `mpmon run -- COMMAND`, and it records:" in page
            assert "whose CUDA memory is in transit, who holds it" in page
        let_go(heard["child"])
        looking.until(lambda job: [view.exports for view in job.ipc.exports] == [2])
