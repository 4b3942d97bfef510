"""What mpmon remarks about GPUs and CUDA memory, each once: by the job that it is about.

What takes minutes is looked at with a clock that goes ahead (`tests.ipc.looking`), where it is the age of something.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

import psutil

from mpmon.diagnosis.remarks import remarks
from mpmon.diagnosis.remarks.ipc_contexts import FEWEST
from mpmon.diagnosis.remarks.ipc_receiver_grows import GROWTH_BYTES as LEAST_GROWTH
from mpmon.diagnosis.remarks.ipc_torch_faults import FAULTS, FEWEST_RECEIVED
from mpmon.diagnosis.state.job_state import JobState as Diagnosed
from mpmon.doctor.gpu.case import Case, Need, NotHere, Seen, World, Wrong
from mpmon.doctor.gpu.sharing import EXPANDABLE, Sharing, sharing
from tests.gpu.hangs import has_to_list, topics
from tests.gpu.streams import HOLDS, RANKS, job, told, until
from tests.ipc.looking import Looking, looking_at

MIB = 1 << 20
GROWTH_S = 200.0
"""`gpu-memory-grows` wants two minutes."""
GROWTH_ROUNDS, GROWTH_SENDINGS, GROWTH_LATER_S = 14, 100, 11.0
"""`ipc-receiver-grows` wants twelve looks, a thousand sendings, and two minutes."""
EVENT_BYTES = 64 << 10
"""What the stand-in's receiver keeps of each."""
RECEIVERS = "tests.gpu.programs.receivers"

Bring = Callable[[Sharing, Looking], Diagnosed]


def said(case: Diagnosed, topic: str) -> str | None:
    """What is remarked of a topic."""
    return next((remark.summary for remark in remarks(case) if remark.topic == topic), None)


def of_sharing(topic: str, bring: Bring, environment: Mapping[str, str] | None = None) -> Callable[[World], Seen]:
    """A case for a remark about a producer and a consumer."""

    def run(world: World) -> Seen:
        with sharing(world, environment=environment) as sharers, looking_at(sharers.root) as looking:
            case = bring(sharers, looking)
            if said(case, topic) is None:
                try:
                    looking.until(lambda case: said(case, topic))
                except AssertionError as problem:
                    made = sorted({remark.topic for remark in remarks(looking.round())})
                    raise Wrong(
                        f"the remark {topic}", f"remarks: {', '.join(made) or 'none'}", str(problem)
                    ) from problem
            return Seen("the remark is made")

    return run


def settled(looking: Looking, *states: str) -> Diagnosed:
    return looking.until(lambda case: [view.state for view in case.ipc.exports] == list(states))


def never_received(job: Sharing, looking: Looking) -> Diagnosed:
    job.do("send", "1", "1024")
    job.do("drop")
    job.do("share", "1024")
    settled(looking, "in-flight")
    return looking.round(later_s=400.0)


def not_collected(job: Sharing, looking: Looking) -> Diagnosed:
    job.do("send", "1", str(32 * MIB))
    settled(looking, "held")
    job.do("forget")
    job.do("collect")  # the shim looks then what was dropped
    job.do("drop")
    settled(looking, "released-not-collected")
    return looking.round(later_s=40.0)


def limbo(job: Sharing, looking: Looking) -> Diagnosed:
    job.do("send", "1015", "1024", seconds=120.0)
    job.do("forget")
    job.do("collect")
    return looking.round()


def dead_producer(job: Sharing, looking: Looking) -> Diagnosed:
    job.do("drop")  # a consumer that answered this has let go of the lock under which it said that it was ready
    os.kill(job.consumer, signal.SIGSTOP)
    for _ in range(3):
        job.do("post", "1024")
    looking.until(lambda case: len(case.snapshot.exports) == 3)
    os.kill(job.producer, signal.SIGKILL)
    return looking.round()


def receiver_grows(job: Sharing, looking: Looking) -> Diagnosed:
    """Sendings that nobody keeps: what stays of each is torch's. Raises: NotHere."""
    before = _resident(job.consumer)
    for _ in range(GROWTH_ROUNDS):
        job.do("send", str(GROWTH_SENDINGS), "1024", seconds=120.0)
        job.do("drop")
        job.do("forget")
        job.do("collect")
        looking.round(later_s=GROWTH_LATER_S)
    grown = _resident(job.consumer) - before
    if grown < LEAST_GROWTH:
        each = grown / (GROWTH_ROUNDS * GROWTH_SENDINGS) / 1024
        raise NotHere(f"with this torch a receiver grows by no more than {each:.1f} KiB with each sending")
    return looking.round()


def _resident(pid: int) -> int:
    """Bytes."""
    return psutil.Process(pid).memory_info().rss


def torch_faults(job: Sharing, looking: Looking) -> Diagnosed:
    """A fault of expandable segments: what is sent never arrives, or is mapped again and again. Raises: NotHere."""
    refused = job.do("send", str(FEWEST_RECEIVED), "1024", seconds=120.0)["said"]
    case = looking.round(later_s=400.0)
    if not refused and said(case, "ipc-torch-faults") is None:
        raise NotHere("all that is sent arrives, as where no fabric handles are used")
    return case


def faulty(run: Callable[[World], Seen]) -> Callable[[World], Seen]:
    """Only with a version of torch that has one of the faults."""

    def case(world: World) -> Seen:
        version = tuple(int(part) for part in (world.torch or "").split(".")[:2])
        if not any(fault.first <= version < fault.before for fault in FAULTS):
            raise NotHere("this version of torch has none of the faults")
        return run(world)

    return case


def contexts(world: World) -> Seen:
    with (
        tempfile.TemporaryDirectory(prefix="mpmon-gpu-", dir="/dev/shm") as folder,
        job(RECEIVERS, world.tensors, str(FEWEST), MPMON_RUN_DIR=folder) as (program, said),
    ):
        has_to_list(said["receivers"], program.pid)
        report = until(program.pid, lambda report: "ipc-contexts" in topics(report), "the remark ipc-contexts")
        (remark,) = (row for row in report["remarks"] if row["topic"] == "ipc-contexts")
        if sorted(remark["pids"]) != sorted(said["receivers"]):
            raise Wrong("the receivers as those that have contexts", f"{len(remark['pids'])} processes")
        return Seen(told(report))


def leak_by_consumer(job: Sharing, looking: Looking) -> Diagnosed:
    for _ in range(21):
        job.do("send", "1", "1024")
        time.sleep(3.1)
    return looking.round()


def really(run: Callable[[World], Seen], why: str) -> Callable[[World], Seen]:
    """Only on a GPU."""

    def case(world: World) -> Seen:
        if not world.computes:
            raise NotHere(why)
        return run(world)

    return case


def held(world: World) -> Seen:
    with job(RANKS, "shares", "1", "cuda") as (program, rank), job(HOLDS) as (other, _):
        other.order("context")
        other.order("take", "300")
        has_to_list(rank["ranks"], program.pid)
        report = until(program.pid, lambda report: "gpu-held" in topics(report), "the remark gpu-held")
        return Seen(told(report))


def grows(world: World) -> Seen:
    with job(RANKS, "grows", "2", "cuda") as (program, _):
        report = until(
            program.pid, lambda report: "gpu-memory-grows" in topics(report), "the remark gpu-memory-grows", seconds=GROWTH_S
        )  # fmt: skip
        return Seen(told(report))


_MEMORY: frozenset[Need] = frozenset({"memory"})
_TORCH: frozenset[Need] = frozenset({"memory", "torch"})
_MINUTES = "it takes minutes, and tests/diagnosis has it with a clock of its own"

CASES: Sequence[Case] = (
    Case("gpu-held", "Memory that a stranger holds on the GPU of a rank is told.", held, _MEMORY),
    Case("gpu-memory-grows", "A rank whose memory grows and whose peer's does not is told.", really(grows, _MINUTES), _MEMORY),
    *(
        Case(topic, f"{sentence} is told.", of_sharing(topic, bring, environment), _TORCH)
        for topic, sentence, bring, environment in (
            ("ipc-never-received", "A sending that nobody receives", never_received, None),
            ("ipc-not-collected", "What was given back and not collected", not_collected, None),
            ("ipc-limbo", "More than a thousand blocks in limbo", limbo, None),
            ("ipc-dead-producer", "What a dead producer had put", dead_producer, None),
            ("ipc-receiver-grows", "A receiver that grows on the host with each sending", receiver_grows,
             {"STANDIN_EVENT_BYTES": str(EVENT_BYTES)}),
        )
    ),
    Case("ipc-contexts", "Receivers that have a context each are told.", contexts, _TORCH),
    Case("ipc-torch-faults", "A torch that cannot share expandable segments without a fault is told.",
         faulty(of_sharing("ipc-torch-faults", torch_faults, EXPANDABLE)), _TORCH),
    Case("ipc-leak-by-consumer", "A consumer that keeps all it receives is told.",
         really(of_sharing("ipc-leak-by-consumer", leak_by_consumer), _MINUTES), _TORCH),
)  # fmt: skip

ELSEWHERE = {
    "gpu-spinning": "hang-nccl",
    "gpu-starved": "gpu-starved",
    "gpu-shared": "gpu-shared",
    "ipc-leak-by-death": "ipc-consumer-killed",
    "ipc-rebuilt-twice": "ipc-rebuilt-twice",
    "ipc-sync-mode": "ipc-events",
    "ipc-expandable-segments": "ipc-expandable",
}
"""Remarks that other cases make."""

UNTRIED = {
    "gpu-lost": "a GPU is not lost on purpose",
    "gpu-throttled": "a GPU is not heated on purpose",
    "gpu-not-own": "it needs two GPUs",
    "gpu-unseen": "it needs a container whose driver lists nobody",
}
"""Remarks that no case makes, and why; `test_provoked` has the stand-in driver bring them about."""
