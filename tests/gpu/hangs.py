"""Whole jobs that hang or starve on a GPU: what mpmon says of them."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from mpmon.diagnosis.thresholds import GPU_STANDS_LONG_S
from mpmon.doctor.gpu.case import Case, NotHere, Seen, World, Wrong
from mpmon.doctor.gpu.talking import Program
from mpmon.doctor.gpu.watching import Report, report_of
from mpmon.probes.addresses import addresses
from mpmon.probes.nccl_ras import Address, NoAnswer, NotUnderstood
from mpmon.session.nccl_ras import asked_here
from tests.gpu.streams import RANKS, SAYS_S, job, told, until

MOST_TOLD = 500
"""Characters of an answer that was not as expected."""

FOR_GPU = "the GPU to finish its work"


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


def are_listed(pids: Collection[int], root: int) -> bool:
    """The driver has at least one of these on its list, by the pid it has here."""
    return any(row["pid"] in pids for row in report_of(root)["gpu_processes"])


def has_to_list(pids: Collection[int], root: int) -> None:
    """Raises: NotHere."""
    if not are_listed(pids, root):
        raise NotHere("the driver lists nobody by the pid it has here")


def ddp_gloo(world: World) -> Seen:
    device = "cuda" if world.computes else "cpu"
    with job(RANKS, "reduces", "2", device) as (program, said):
        also = {"gpu-shared"} if are_listed(said["ranks"], program.pid) else set[str]()
        report = until(
            program.pid, lambda report: "straggler" in causes(report) and also <= topics(report),
            f"hung for the cause straggler{''.join(f', and the remark {topic}' for topic in also)}",
        )  # fmt: skip
        suspects = {row["pid"] for row in report["findings"][0]["suspects"]}
        if suspects != {said["ranks"][1]}:
            raise Wrong("the rank that sleeps as the one suspect", f"{len(suspects)} others")
        return Seen(told(report))


def spinning(program: Program, rank: int) -> Seen:
    """Its host thread asks the driver again and again (cudaDeviceScheduleAuto), which may as well be a computation: the GPU
    tells, so it is remarked, and is no verdict.
    """
    has_to_list([rank], program.pid)
    report = until(program.pid, lambda report: "gpu-spinning" in topics(report), "the remark gpu-spinning")
    (remark,) = (row for row in report["remarks"] if row["topic"] == "gpu-spinning")
    if remark["pids"] != [rank]:
        raise Wrong("the rank as the one whose GPU spins", f"{len(remark['pids'])} processes")
    does = next(row["does"] for row in report["processes"] if row["pid"] == rank)
    return Seen(f"{told(report)}; the rank: {does}")


def all_ranks(world: World) -> Seen:
    """Nobody is seen whom they could wait for, so what they are told to ask for is numbers of collectives."""
    with job(RANKS, "waits", "2", "cuda" if world.computes else "cpu") as (program, said):
        has_to_list(said["ranks"], program.pid)
        report = until(
            program.pid, lambda report: any("--nccl-ras" in line for line in advice(report)),
            "the remark gpu-spinning of all ranks", seconds=GPU_STANDS_LONG_S + SAYS_S,
        )  # fmt: skip
        (remark,) = (row for row in report["remarks"] if row["topic"] == "gpu-spinning")
        if set(remark["pids"]) != set(said["ranks"]) or report["findings"]:
            raise Wrong("a remark about both ranks, and no hang", told(report))
        return Seen(f"{told(report)}: {remark['summary']}")


def advice(report: Report) -> list[str]:
    return [line for row in report["remarks"] if row["topic"] == "gpu-spinning" for line in row["advice"]]


def stream(world: World) -> Seen:
    with job(RANKS, "waits", "1", "cuda" if world.computes else "cpu") as (program, said):
        return spinning(program, said["ranks"][0])


def asleep(world: World) -> Seen:
    """Its host thread is on no CPU meanwhile, so that its frames of C are read: they say that it waits for the GPU."""
    with job(RANKS, "sleeps", "1", "cuda" if world.computes else "cpu") as (program, said):
        (rank,) = said["ranks"]
        report = until(
            program.pid, lambda report: calls(report, rank), "a rank whose frames of C say what it waits for"
        )
        (call,) = calls(report, rank)
        if "synchronize" not in call.lower() or report["findings"]:
            raise Wrong("a rank that waits for the GPU, and no hang", f"{call}; {told(report)}")
        return Seen(f"{told(report)}; the rank: {call}")


def calls(report: Report, rank: int) -> list[str]:
    """In what its main thread sleeps, where that waits for the GPU."""
    return [
        row["calls"] for row in report["native_stacks"]
        if row["pid"] == row["tid"] == rank and row["waits_for"] == FOR_GPU and row["certain"]
    ]  # fmt: skip


def nccl(_world: World) -> Seen:
    with job(RANKS, "spins", "1", "cuda") as (program, said):
        return spinning(program, said["ranks"][0])


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


def ras(_world: World) -> Seen:
    """The real server of NCCL, which listens where NCCL_RAS_ADDR says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = Address("localhost", free.getsockname()[1])
    with job(RANKS, "spins", "1", "cuda", NCCL_RAS_ADDR=str(address)) as (_, said):
        try:
            found = asked_here(address)
        except (NoAnswer, NotUnderstood) as problem:
            raise Wrong("an answer of NCCL's RAS", f"{address} {problem}") from problem
        peers = [peer for one in found for peer in one.peers]
        if not any(peer.pid == said["ranks"][0] and peer.host in addresses() for peer in peers):
            raise Wrong("the rank among the peers, by an address of this machine", str(found)[:MOST_TOLD])
        return Seen(f"{len(found)} communicators, and the rank is found by address and pid")


def starved(world: World) -> Seen:
    with job(RANKS, "starves", "1", "cuda") as (program, _):
        report = until(program.pid, lambda report: "gpu-starved" in topics(report), "the remark gpu-starved")
        return Seen(told(report))


def shared(world: World) -> Seen:
    with job(RANKS, "shares", "2", "cuda") as (program, said):
        has_to_list(said["ranks"], program.pid)
        report = until(program.pid, lambda report: "gpu-shared" in topics(report), "the remark gpu-shared")
        return Seen(told(report))


CASES: Sequence[Case] = (
    Case("hang-gloo", "Of two ranks on gloo with tensors on the device, the one that sleeps is told as the straggler.",
         gloo, frozenset({"torch"})),
    Case("hang-ddp-gloo", "Of two ranks of DDP on gloo that have one GPU, the one that does not reduce is told as the "
         "straggler.", ddp_gloo, frozenset({"memory", "torch"})),
    Case("hang-stream", "A rank that waits for a stream whose kernel never ends stands, and its GPU only spins.", stream,
         frozenset({"memory", "torch"})),
    Case("hang-stream-asleep", "A rank that sleeps until its stream is done is told to wait for the GPU, and not to hang.",
         asleep, frozenset({"memory", "torch"})),
    Case("hang-all-ranks", "Where all ranks wait so for long, it is told what shows whether they hang.", all_ranks,
         frozenset({"memory", "torch"})),
    Case("hang-nccl", "A rank of DDP on NCCL whose kernel never ends stands, and its GPU only spins.", nccl,
         frozenset({"memory", "torch", "work"})),
    Case("flight-recorder-nccl", "What the Flight Recorder of NCCL writes down as JSON is read.", flight_recorder,
         frozenset({"memory", "torch", "work"})),
    Case("nccl-ras", "NCCL's own RAS answers with its communicators, and a rank is found in them by address and pid.",
         ras, frozenset({"memory", "torch", "work"})),
    Case("gpu-starved", "A rank whose loader is slow is told as starved.", starved, frozenset({"memory", "torch", "work"})),
    Case("gpu-shared", "Two ranks on one GPU are told.", shared, frozenset({"memory"})),
)  # fmt: skip
