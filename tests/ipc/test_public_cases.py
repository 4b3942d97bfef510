"""What users of torch suffered from in public, each as a real job, and the line that mpmon prints about it.

CUDA is the stand-in of `standin.py`, which says what it does not show; all else is real. Cases that need a driver (handles of
segments, contexts) are in `tests/diagnosis/test_ipc_faults.py`, on facts; a join of a queue that is not drained (cpython#73983)
is in `tests/live/test_matrix.py`.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest

from mpmon.diagnosis import diagnose
from mpmon.diagnosis.findings import Observation
from mpmon.diagnosis.remarks import remarks
from mpmon.diagnosis.state.job_state import JobState
from mpmon.launch import STARTUP
from mpmon.reports import text
from tests.builders import gpu
from tests.ipc.looking import Looking, looking_at
from tests.ipc.running import PROGRAMS, Job, kill
from tests.patience import ran
from tests.shim.running import HOME, environment

pytestmark = pytest.mark.live

MIB = 1 << 20
BLOCKS = ("blocks.py", "fork")


class Scene(NamedTuple):
    """A job and whoever looks at it."""

    job: Job
    looking: Looking
    heard: dict[str, Any]
    """What it said of itself first."""

    def until(self, topic: str) -> JobState:
        return self.looking.until(lambda case: any(row.topic == topic for row in remarks(case)))

    def until_all(self, state: str) -> JobState:
        """All that was sent is in that state."""
        return self.looking.until(lambda case: {view.state for view in case.ipc.exports} == {state})


class Public(NamedTuple):
    """One case."""

    source: str
    job: tuple[str, ...]
    bring: Callable[[Scene], JobState]
    """Bring the job where its user found it, and look."""
    lines: tuple[str, ...]
    """In the report: what it is, whose, how much, and what to do."""
    environment: Mapping[str, str] = MappingProxyType({})
    container: str = ""
    """The size of a /dev/shm of its own."""


def printed(looking: Looking, case: JobState) -> str:
    """The report in one line."""
    seen = Observation(snapshot=case.snapshot, diagnosis=diagnose(looking.history), watched_s=looking.history.watched_s)
    return " ".join(text.render(seen).split())


def orders(*words: str, then: Callable[[Scene], JobState]) -> Callable[[Scene], JobState]:
    """What the job is told to do, and how to look at it afterwards."""

    def bring(scene: Scene) -> JobState:
        for word in words:
            scene.job.order(word)
        return then(scene)

    return bring


def soon(topic: str) -> Callable[[Scene], JobState]:
    return lambda scene: scene.until(topic)


def later(seconds: float, state: str) -> Callable[[Scene], JobState]:
    """So long after all that was sent is in that state."""

    def sample(scene: Scene) -> JobState:
        scene.until_all(state)
        return scene.looking.round(later_s=seconds)

    return sample


def reported(pid: int) -> str:
    """What `mpmon PID --once` prints, in one line."""
    command = [sys.executable, "-m", "mpmon", str(pid), "--once"]
    run = ran(command, env=environment(None, PYTHONPATH=str(HOME)))
    assert not run.stderr
    return " ".join(run.stdout.split())


# Jobs that have to be brought further


def transfers_of_weights(scene: Scene) -> JobState:
    """Three syncs of two tensors, and then everybody drops everything."""
    for number in range(3):
        if number:
            # Rounds of sending are told apart by the time between them.
            time.sleep(1.1)
        scene.job.order(f"send 2 {8 * MIB}")
    return orders("forget", "drop", then=later(40.0, "released-not-collected"))(scene)


def two_lost_items(scene: Scene) -> JobState:
    """One of each process."""
    return scene.looking.until(lambda case: sum(row.lost for row in case.snapshot.queue_records) == 2)


def memory_that_grows(scene: Scene) -> JobState:
    scene.job.order("events")
    for _ in range(13):
        scene.job.order("churn 100")
        scene.looking.round(later_s=11.0)
    return scene.until("ipc-receiver-grows")


def other_numbers_of_gpus(scene: Scene) -> JobState:
    """With two GPUs, as the driver would name them."""
    scene.job.order("send 1 1024")
    snapshot = msgspec.structs.replace(scene.until_all("held").snapshot, gpus=(gpu(0), gpu(1)))
    scene.looking.history = scene.looking.history.add(snapshot)
    return JobState(scene.looking.history, snapshot)


def a_producer_that_dies(scene: Scene) -> JobState:
    scene.job.order("send 3 1000")
    scene.looking.until(lambda case: any(row.descriptors == 3 for row in case.snapshot.queue_records))
    kill(scene.heard["child"])
    return scene.until("ipc-dead-producer")


def a_refcounter_that_is_removed(scene: Scene) -> JobState:
    scene.job.order("send 2 1024")
    case = scene.until_all("held")
    Path("/dev/shm", case.snapshot.exports[0].file).unlink()
    return scene.until("shm-deleted")


def a_tensor_that_is_removed(scene: Scene) -> JobState:
    scene.job.order("send 1 200000")
    (file,) = Path("/dev/shm").glob(f"torch_{scene.heard['child']}_*")
    file.unlink()
    return scene.until("shm-deleted")


CASES = (
    Public(
        "pytorch#149187: a handle that is sent and never rebuilt", BLOCKS,
        orders("send 1 1024", "drop", "share", then=later(400.0, "in-flight")),
        ("1 transfer of CUDA memory (256 B) of main (pid {main}) was never received, the oldest was sent 6 min",
         "sent at blocks.py:{SHARE} in main", "Drain the queue before its consumer ends"),
    ),
    Public(
        "pytorch#149187: a handle that is rebuilt twice", BLOCKS,
        orders("twice", "drop", then=soon("ipc-rebuilt-twice")),
        ("1 transfer of CUDA memory of main (pid {main}) was rebuilt more than once (count -1)", "one put each"),
    ),
    Public(
        "pytorch#118859: a thousand blocks in limbo", BLOCKS,
        orders("send 1015 64", "forget", then=soon("ipc-limbo")),
        ("1015 blocks 63 KiB of CUDA memory of main (pid {main}) are in limbo, all held by child of main (pid {child})",
         "most sent at blocks.py:{SEND} in main", "Let the consumer del what it received",
         "main (pid {main}) has 1015 transfers of CUDA memory outstanding"),
    ),
    Public(
        "pytorch#27975: the consumer's memory on the host grows with each tensor", BLOCKS,
        memory_that_grows,
        ("child of main (pid {child}) grows on the host by 6", "with each transfer of CUDA memory it receives",
         "send fewer, larger tensors"),
    ),
    Public(
        "pytorch#165685, #114534: pidfd_getfd: Operation not permitted", BLOCKS,
        orders("refuse", "send 2 1024", then=later(60.0, "in-flight")),
        ("main (pid {main}) shares CUDA memory with expandable_segments on, and 2 of its transfers never arrived",
         "expandable_segments:False"),
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
    Public(
        "pytorch#186213: receivers use up all addresses", ("limits.py", "addresses"), soon("address-space-near-limit"),
        ("main (pid {main}) has used up 119.2 TiB of 128.0 TiB of address space", "expandable_segments:False"),
    ),
    Public(
        "pytorch#149196: the wrong GPU", ("blocks.py", "spawn"), other_numbers_of_gpus,
        ("cuda:0 is GPU 0 in main (pid {main}) and GPU 1 in child of main (pid {child}), which receives CUDA memory from it",
         "Give both the same CUDA_VISIBLE_DEVICES"), {"CUDA_VISIBLE_DEVICES": "0,1", "CONSUMER_DEVICES": "1,0"},
    ),
    Public(
        "pytorch#77732, #134755, cpython#84376: items are lost in the feeder thread", BLOCKS,
        orders("onward", "lambda", then=two_lost_items),
        ("1 item was put into queue {queue}", "child of main (pid {child}) lost 1; the last one was put at blocks.py:{ONWARD}",
         "send a copy of it (.clone())", "main (pid {main}) lost 1; the last one was put at blocks.py:{LAMBDA} in main",
         "Search the job's standard error for QueueFeederThread"),
    ),
    Public(
        "pytorch#11201: received 0 items of ancdata",
        ("few_files.py", "64", str(PROGRAMS / "tensors.py"), "file_descriptor", "fork"),
        orders("send 23 10", then=soon("descriptors-near-limit")),
        ("of 64 files open, 46 of them tensors in shared memory", "ulimit -n 65536"),
    ),
    Public(
        "pytorch#5040, #176069: bus error, and the wrong error, when /dev/shm is full", ("tensors.py", "file_descriptor", "fork"),
        orders("send 12 200000", then=soon("items-lost")),
        ("/dev/shm is 9", "of 2 MiB", "2 MiB by child of main (pid {child})", "docker run --shm-size=8g",
         "put into queue {queue}", "but could not be sent"),
        container="2m",
    ),
    Public(
        "pytorch#87861: Cannot allocate memory, of 65,530 mappings", ("limits.py", "maps"), soon("maps-near-limit"),
        ("main (pid {main}) has 6", " of 65530 memory mappings", "vm.max_map_count=262144"),
    ),
    Public(
        "pytorch#45831, #7181: the producer ends before get", ("tensors.py", "file_descriptor", "fork"), a_producer_that_dies,
        ("3 items of dead producer {child} in queue {queue}", "can never be received", "3 descriptors", "Keep a producer alive"),
    ),
    Public(
        "pytorch#30225: somebody removes the refcounter", BLOCKS, a_refcounter_that_is_removed,
        ("the reference counts of main (pid {main}) were removed from /dev/shm while they are in use: 2 transfers", "RemoveIPC"),
    ),
    Public(
        "mlcommons/storage#528: somebody removes a tensor", ("tensors.py", "file_system", "fork"), a_tensor_that_is_removed,
        ("1 tensor 196 KiB made by pid {child} was removed from /dev/shm while in use", "RemoveIPC"),
    ),
    Public(
        "pytorch#145703, slime#1731, miles#3147, verl#6958, sglang#4446: memory stays after it was dropped, more with each sync",
        BLOCKS, transfers_of_weights,
        ("6 blocks 48 MiB of CUDA memory released, not collected: torch.cuda.ipc_collect() in main (pid {main})",
         "16 MiB more with each of 3 rounds of transfers",
         "sent at blocks.py:{SEND} in main", "empty_cache() does not."),
    ),
)  # fmt: skip


def marks(program: str = "blocks.py") -> dict[str, str]:
    """Lines of the job by the words at their ends."""
    lines = (PROGRAMS / program).read_text(encoding="utf-8").splitlines()
    return {
        found[1]: str(number) for number, line in enumerate(lines, 1) if (found := re.search(r"  # ([A-Z]+)$", line))
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.source.partition(":")[0])
def test_it_is_said(case: Public, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    program, *arguments = case.job
    if case.container:
        own_shm = request.getfixturevalue("own_shm")
        program, arguments = own_shm, [case.container, str(PROGRAMS / program), *arguments]
    shim = {"MPMON_RUN_DIR": str(tmp_path), "PYTHONPATH": str(STARTUP)}
    with Job(program, *arguments, **shim, **case.environment) as running, looking_at(running.pid) as looking:
        heard = running.hear()
        said = printed(looking, case.bring(Scene(running, looking, heard)))
    for line in case.lines:
        assert line.format(**{"main": running.pid, **heard, **marks()}) in said


# Hangs


def killed_reader(running: Job, heard: dict[str, Any]) -> dict[str, int]:
    """The one that is in get() with the lock of the readers."""
    children = set(heard["children"])

    def holder(case: JobState) -> int | None:
        locks = [view.read_lock for view in case.ipc.queues if set(view.blocked_get) == children]
        return next((lock.holders[0] for lock in locks if lock and lock.holders), None)

    with looking_at(running.pid) as looking:
        dead = holder(looking.until(holder))
    assert dead
    kill(dead)
    return {"dead": dead, "left": (children - {dead}).pop()}


def nothing(running: Job, heard: dict[str, Any]) -> dict[str, int]:
    return {}


@pytest.mark.parametrize(
    ("word", "bring", "lines"),
    [
        ("readers", killed_reader, (
            "process take waits for a lock that process ", "(pid {dead}), which was killed by SIGKILL (9), never released",
            "process take (pid {left}): a lock that no living process holds", "Restart: the lock stays taken",
        )),
        ("undrained", nothing, (
            "(pid {child}) cannot exit: its feeder thread has been blocked in write for ",
            "and main (pid {main}) reads nothing from queue {queue}",
            "main (pid {main}) is at hangs_at_queues.py:{REST} in undrained",
        )),
    ],
    ids=["pytorch#35660, cpython#87971: get() hangs", "pytorch#26072: no exit"],
)  # fmt: skip
def test_it_hangs(word: str, bring: Callable[..., dict[str, int]], lines: tuple[str, ...]) -> None:
    program = "hangs_at_queues.py"
    with Job(program, word) as running:
        heard = running.hear()
        heard |= bring(running, heard)
        said = reported(running.pid)
    for line in lines:
        assert line.format(**{"main": running.pid, **heard, **marks(program)}) in said
