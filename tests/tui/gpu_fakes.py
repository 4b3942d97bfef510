"""Jobs on GPUs that nobody needs a GPU for: ranks that train, a device that is lost, one whose driver does not answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from mpmon.diagnosis.findings import (
    Certainty,
    Diagnosis,
    Finding,
    Link,
    Observation,
    Place,
    ProcessView,
    Remark,
    Suspect,
    TrendPoint,
    Verdict,
    Waiter,
)
from mpmon.model import Gpu, GpuProcess, MigInstance, ProbeReport, Snapshot, Xid
from tests.builders import view
from tests.tui.fakes import NOW, frame, process, stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GIB = 1 << 30
LAUNCHER = 4300
H100 = "NVIDIA H100 80GB HBM3"
DRIVER = "580.65.06"
ROUNDS = 150
"""Seconds of history."""

LOST = "the GPU is lost: it does not answer on its bus any more; see dmesg for NVRM and Xid, then reset it or reboot"
NOT_ON_MIG = "not supported while MIG is on"


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-5f02-41cc-a3b0-7c2d88c5a001"


def rank_pid(rank: int) -> int:
    return LAUNCHER + 1 + rank


def gpu(index: int, *, at: float = NOW, busy: float = 1.0, **more: object) -> Gpu:
    """A device as it is at one moment of a training: steps of 12 s, each ends with a dip, as a validation would."""
    phase = (at + index) % 12 / 12
    load = busy * (0.35 if phase > 0.85 else 0.93 + 0.06 * math.sin(phase * 9 + index))
    row = Gpu(
        uuid=uuid(index),
        index=index,
        name=H100,
        read_at=at - 0.4,
        memory_total_bytes=80 * GIB,
        memory_used_bytes=int((58.2 + 1.7 * (index % 8) + 2 * phase) * GIB),
        utilization_percent=round(100 * load),
        memory_utilization_percent=round(55 * load),
        power_watts=round(120 + 520 * load + 3 * index),
        power_limit_watts=700.0,
        temperature_celsius=46.0 + index % 5 + 8 * busy,
        sm_clock_mhz=1755,
        sm_clock_max_mhz=1980,
        clock_event_reasons=("power cap",) if index == 2 else (),
        ecc_uncorrected=0,
        recovery_action="none",
        mig=False,
    )
    return msgspec.structs.replace(row, **more)


def gpu_process(rank: int, **more: object) -> GpuProcess:
    row = GpuProcess(
        pid=rank_pid(rank),
        gpu_uuid=uuid(rank),
        kinds=("compute",),
        memory_bytes=int((57.6 + 1.7 * (rank % 8)) * GIB),
        sm_percent=94.0 - rank,
        sample_age_s=0.6,
    )
    return msgspec.structs.replace(row, **more)


def job(
    gpus: Sequence[Gpu],
    gpu_processes: Sequence[GpuProcess],
    *,
    ranks: int,
    past: Sequence[TrendPoint] = (),
    diagnosis: Diagnosis | None = None,
    mig_instances: Sequence[MigInstance] = (),
    now: float = NOW,
) -> Observation:
    """A launcher with so many ranks."""
    pids = [rank_pid(rank) for rank in range(ranks)]
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(str(n) for n in range(ranks))}
    environments = [{"RANK": str(n), "LOCAL_RANK": str(n), **visible} for n in range(ranks)]
    snapshot = Snapshot(
        taken_at=now,
        root_pid=LAUNCHER,
        root_start_time=NOW - 900,
        processes=(
            process(LAUNCHER, "torchrun", ppid=1),
            *(
                process(pid, ppid=LAUNCHER, state="R", rss=4 * GIB, environment=environment)
                for pid, environment in zip(pids, environments, strict=True)
            ),
        ),
        stacks=tuple(stack(pid, frame("step", "/home/ada/cats/train.py", 88)) for pid in pids),
        gpus=tuple(gpus),
        gpu_processes=tuple(gpu_processes),
        mig_instances=tuple(mig_instances),
        driver=DRIVER,
        probes=(ProbeReport(name="gpus", ok=True, seconds=0.003),),
    )
    moment = TrendPoint(now, snapshot.gpus, snapshot.gpu_processes, cpu_percents(range(ranks), now))
    said = diagnosis or Diagnosis(verdict=Verdict.HEALTHY, since=NOW - 640, because="every rank moves")
    said = msgspec.structs.replace(said, processes=rank_views(ranks, said))
    return Observation(snapshot=snapshot, diagnosis=said, watched_s=float(ROUNDS), trend=(*past, moment))


def rank_views(ranks: int, diagnosis: Diagnosis) -> tuple[ProcessView, ...]:
    suspects = {suspect.pid for finding in diagnosis.findings for suspect in finding.suspects}
    waits = {waiter.pid: waiter.waits_for for finding in diagnosis.findings for waiter in finding.waiters}
    launcher = view(LAUNCHER, "launcher", mood="idle", does="waits for its ranks", cpu_percent=0.0)
    return (
        launcher,
        *(
            view(
                pid,
                f"rank {rank}",
                rank=rank,
                local_rank=rank,
                world_size=ranks,
                parent=LAUNCHER,
                cpu_percent=100.0 + rank,
                mood="suspect" if pid in suspects else "waiting" if pid in waits else "working",
                does="asleep in cuStreamSynchronize" if pid in suspects else waits.get(pid, "runs"),
            )
            for rank in range(ranks)
            for pid in (rank_pid(rank),)
        ),
    )


def earlier(count: int, *, until: float = NOW) -> list[TrendPoint]:
    """The rounds before, one a second."""
    moments = (until - seconds for seconds in range(ROUNDS, 0, -1))
    users = tuple(gpu_process(rank) for rank in range(count))
    return [
        TrendPoint(at, tuple(gpu(n, at=at) for n in range(count)), users, cpu_percents(range(count), at))
        for at in moments
    ]


def cpu_percents(ranks: Iterable[int], at: float) -> dict[int, float]:
    """What ranks use of one core: all of it, and little while they write a checkpoint, every minute for 20 s."""
    return {rank_pid(rank): 25.0 if (at + 3 * rank) % 60 < 20 else 100.0 for rank in ranks}


def training(ranks: int = 8, *, remarks: Sequence[Remark] = ()) -> Observation:
    """All is well; the ranks compute."""
    diagnosis = Diagnosis(verdict=Verdict.HEALTHY, since=NOW - 640, because="every rank moves", remarks=tuple(remarks))
    rows = [gpu_process(rank) for rank in range(ranks)]
    return job([gpu(n) for n in range(ranks)], rows, ranks=ranks, past=earlier(ranks), diagnosis=diagnosis)


STRAY_CONTEXTS = Remark(
    topic="gpu-not-own",
    summary="ranks 1–7 each hold 480 MiB on GPU 0, which is rank 0's",
    pids=tuple(rank_pid(rank) for rank in range(1, 8)),
    gpu_uuids=(uuid(0),),
    evidence=("rank 1 (4302) has 480 MiB on GPU 0 and 57 GiB on GPU 1",),
    advice=("Call torch.cuda.set_device(local_rank) before anything else touches CUDA.",),
)

SPINNING = Remark(
    topic="gpu-spinning",
    summary="GPU 1 is 100 % busy at 118 of 700 W: its kernel waits",
    pids=(rank_pid(1),),
    gpu_uuids=(uuid(1),),
)


def in_trouble() -> Observation:
    """GPU 2 has fallen off the bus, a driver call on GPU 5 does not come back, the others spin in a collective."""
    ranks, began = 8, NOW - 41
    past = [moment for moment in earlier(ranks) if moment.taken_at < began]
    lost, blocked = gpu(2, at=began), gpu(5, at=NOW - 12)
    lost = msgspec.structs.replace(
        lost, problem=LOST, xids=(Xid(number=79, seen_at=began),), reasons={"gpu_processes": "the GPU is lost"}
    )
    blocked = msgspec.structs.replace(
        blocked, problem="driver call nvmlDeviceGetPowerUsage blocks", blocked_since=NOW - 12
    )
    spinning = [n for n in range(ranks) if n not in (2, 5)]
    past += [
        TrendPoint(
            began + second,
            (*(_waits(n, began + second) for n in spinning), lost, _waits(5, min(began + second, NOW - 12))),
            tuple(gpu_process(rank) for rank in spinning),
            {rank_pid(rank): 100.0 for rank in range(ranks) if rank != 2},
        )
        for second in range(41)
    ]
    rows = sorted([*(_waits(n, NOW) for n in spinning), lost, blocked], key=lambda row: row.index)
    remarks = tuple(msgspec.structs.replace(SPINNING, gpu_uuids=(uuid(n),), pids=(rank_pid(n),)) for n in spinning)
    return job(
        rows,
        [
            *(gpu_process(rank, sm_percent=100.0) for rank in spinning),
            gpu_process(5, sm_percent=None, sample_age_s=None, reasons={"sm_percent": blocked.problem}),
        ],
        ranks=ranks,
        past=past,
        diagnosis=Diagnosis(
            verdict=Verdict.HUNG,
            since=began,
            because="ranks wait for rank 2",
            findings=(_lost(began),),
            remarks=remarks,
        ),
    )


def _waits(index: int, at: float) -> Gpu:
    """Busy, and it gets nowhere: the power says so."""
    return gpu(index, at=at, utilization_percent=100.0, power_watts=128.0 + index, clock_event_reasons=())


def _lost(since: float) -> Finding:
    place = Place(function="step", file="/home/ada/cats/train.py", line=88)
    return Finding(
        cause="collective-missing",
        certainty=Certainty.LIKELY,
        summary="Rank 2 waits for its GPU, which is lost, and does not come to the all_reduce of the others.",
        suspects=(Suspect(pid=rank_pid(2), role="rank 2", rank=2, tid=rank_pid(2), frame=place),),
        waiters=tuple(
            Waiter(pid=rank_pid(rank), role=f"rank {rank}", waits_for="all_reduce") for rank in range(8) if rank != 2
        ),
        chain=(
            Link(pid=rank_pid(0), role="ranks 0, 1, 3–7", does="all_reduce"),
            Link(pid=rank_pid(2), role="rank 2", does="cuStreamSynchronize", place=place),
        ),
        evidence=("ranks 0, 1 and 3–7 are in all_reduce number 1841, rank 2 is not",),
        advice=("Look at the kernel log for XID 79: dmesg | grep -i xid",),
        since=since,
    )


def sixteen() -> Observation:
    """Two baseboards of eight."""
    return training(16)


def shared_device() -> Observation:
    """Four ranks on two instances of GPU 0 and on GPU 1, where a stranger has memory too."""
    unknown = dict.fromkeys(("utilization_percent", "memory_utilization_percent"), NOT_ON_MIG)
    parted = gpu(0, mig=True, utilization_percent=None, memory_utilization_percent=None, reasons=unknown)
    instances = [
        MigInstance(
            uuid=f"MIG-{n:08x}-aaaa-5f02-b1b1-7c2d88c5a001",
            gpu_uuid=uuid(0),
            gpu_instance=n,
            compute_instance=0,
            name=name,
            memory_total_bytes=int(total * GIB),
            memory_used_bytes=int(used * GIB),
        )
        for n, name, total, used in ((1, "3g.40gb", 39.5, 31.4), (2, "3g.40gb", 39.5, 0.1), (9, "1g.10gb", 9.75, 9.1))
    ]
    no_sm = {"sm_percent": NOT_ON_MIG}
    users = [
        gpu_process(0, mig_instance=1, compute_instance=0, sm_percent=None, memory_bytes=31 * GIB, reasons=no_sm),
        gpu_process(
            1,
            gpu_uuid=uuid(0),
            mig_instance=9,
            compute_instance=0,
            sm_percent=None,
            memory_bytes=9 * GIB,
            reasons=no_sm,
        ),
        gpu_process(2, gpu_uuid=uuid(1), memory_bytes=25 * GIB, sm_percent=41.0),
        gpu_process(3, gpu_uuid=uuid(1), memory_bytes=22 * GIB, sm_percent=52.0),
        GpuProcess(pid=990, gpu_uuid=uuid(1), kinds=("compute",), name="python", memory_bytes=12 * GIB, sm_percent=3.0),
    ]
    past = [
        TrendPoint(at, (msgspec.structs.replace(parted, read_at=at), gpu(1, at=at)), (), cpu_percents(range(4), at))
        for at in (NOW - seconds for seconds in range(ROUNDS, 0, -1))
    ]
    return job([parted, gpu(1)], users, ranks=4, past=past, mig_instances=instances)


def without_driver() -> Observation:
    """A machine without GPUs."""
    before = job([], [], ranks=2)
    report = ProbeReport(name="gpus", ok=True, seconds=0.0, problem="no NVIDIA driver here")
    snapshot = msgspec.structs.replace(before.snapshot, driver=None, probes=(report,))
    return Observation(snapshot=snapshot, diagnosis=before.diagnosis, watched_s=30.0)
