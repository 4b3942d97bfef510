"""Whole jobs that hang or starve on a GPU: what mpmon says of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from mpmon.doctor.gpu.case import Case, NotHere, Seen, World, Wrong
from mpmon.doctor.gpu.watching import Report, report_of
from tests.gpu.streams import RANKS, job, told, until


def topics(report: Report) -> set[str]:
    return {row["topic"] for row in report["remarks"]}


def causes(report: Report) -> set[str]:
    return {row["cause"] for row in report["findings"]}


def gloo(world: World) -> Seen:
    device = "cuda" if world.computes else "cpu"
    with job(RANKS, "straggles", "2", device) as (program, said):
        report = until(program.pid, lambda report: "straggler" in causes(report), "hung for the cause straggler")
        suspects = {row["pid"] for row in report["findings"][0]["suspects"]}
        if suspects != {said["ranks"][1]}:
            raise Wrong("the rank that sleeps as the one suspect", f"{len(suspects)} others")
        return Seen(told(report))


def nccl(world: World) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "rank0.json"
        with job(RANKS, "spins", "1", "cuda", FLIGHT_RECORD=str(record)) as (program, said):
            report = until(
                program.pid, lambda report: report["verdict"] == "hung" and "gpu-spinning" in topics(report),
                "hung, and the remark gpu-spinning",
            )  # fmt: skip
            does = next(row["does"] for row in report["processes"] if row["pid"] == said["ranks"][0])
            return Seen(f"{told(report)}; the rank: {does}")


def flight_recorder(world: World) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "rank0.json"
        variables = {
            "FLIGHT_RECORD": str(record),
            "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
            "TORCH_FR_BUFFER_SIZE": "2000",
        }
        with job(RANKS, "spins", "1", "cuda", **variables) as (program, _):
            report = report_of(program.pid, "--flight-recorder", str(record), look_s=3.0)
            said = [row for row in report["probes"] if row["name"] == "flight recorder"]
            if not said or not said[0]["ok"]:
                raise Wrong("collectives of NCCL", "none", str(said))
            return Seen(f"{record.stat().st_size >> 10} KiB of collectives are read")


def starved(world: World) -> Seen:
    with job(RANKS, "starves", "1", "cuda") as (program, _):
        report = until(program.pid, lambda report: "gpu-starved" in topics(report), "the remark gpu-starved")
        return Seen(told(report))


def shared(world: World) -> Seen:
    with job(RANKS, "shares", "2", "cuda") as (program, said):
        rows = report_of(program.pid)["gpu_processes"]
        if not any(row["pid"] in said["ranks"] for row in rows):
            raise NotHere("the driver lists nobody by the pid it has here")
        report = until(program.pid, lambda report: "gpu-shared" in topics(report), "the remark gpu-shared")
        return Seen(told(report))


CASES: Sequence[Case] = (
    Case("hang-gloo", "Of two ranks on gloo with tensors on the device, the one that sleeps is told as the straggler.",
         gloo, frozenset({"torch"})),
    Case("hang-nccl", "One rank of DDP on NCCL whose kernel never ends is hung, and its GPU only spins.", nccl,
         frozenset({"memory", "torch", "work"})),
    Case("flight-recorder-nccl", "What the Flight Recorder of NCCL writes down as JSON is read.", flight_recorder,
         frozenset({"memory", "torch", "work"})),
    Case("gpu-starved", "A rank whose loader is slow is told as starved.", starved, frozenset({"memory", "torch", "work"})),
    Case("gpu-shared", "Two ranks on one GPU are told.", shared, frozenset({"memory"})),
)  # fmt: skip
