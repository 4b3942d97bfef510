"""A job of ranks: `ranks WHAT COUNT DEVICE` starts them with the variables of torchrun, says their pids, and waits.

`straggles`: gloo; all ranks but the first sleep in a function of theirs where the others are in a collective.
`reduces`: DDP on gloo, all ranks on one GPU; all but the first sleep so where the others reduce their gradients.
`waits`: a rank whose stream has a kernel that never ends, and which waits for all that was given to the stream.
`sleeps`: the same, and its thread is not to be on a CPU meanwhile.
`spins`: NCCL; DDP trains until it has worked for a while, then a kernel never ends, and the step waits for its result.
`starves`: a rank whose loader is slow.  `shares`: ranks that all hold memory of one GPU, and stand.
`grows`: ranks on one GPU, all but the first of which take more and more.
DEVICE is `cuda`, or `cpu` where CUDA is the stand-in's, with which nothing is computed.
With FLIGHT_RECORD in the environment `spins` writes down its collectives there, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from mpmon import start

if TYPE_CHECKING:
    from mpmon.doctor.gpu.programs.holds import Cuda

WORKS_S = 5.0
"""Before the kernel that never ends."""
GROWS_MIB, GROWS_EVERY_S = "32", 4.0
FOR_EVER = 1 << 45
"""Cycles; some hours."""
SCHED_BLOCKING_SYNC = 4
"""CU_CTX_SCHED_BLOCKING_SYNC of cuda.h."""
MODULE = "tests.gpu.programs.ranks"


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def end_with_parent() -> None:
    """A job that stands does not hear that nobody wants it any more."""
    ctypes.CDLL(None).prctl(start.PR_SET_PDEATHSIG, signal.SIGKILL)


def launch(what: str, count: int, device: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    ranks = []
    for number in range(count):
        own = {"RANK": str(number), "LOCAL_RANK": str(number)}
        command = start.command(MODULE, "rank", what, device)
        ranks.append(
            subprocess.Popen(
                command, env={**os.environ, **shared, **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            )
        )
    for process in ranks:
        assert process.stdout
        if not process.stdout.readline():
            sys.exit("a rank has ended")
    say(ranks=[process.pid for process in ranks])
    for process in ranks:
        process.wait()


def ready() -> None:
    """It has come where it stays."""
    say(ready=os.getpid())


def sleeps_elsewhere() -> None:
    ready()
    time.sleep(86400)


def straggles(device: str) -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    tensor = torch.ones(1024, device=device)
    for _ in range(3):
        dist.all_reduce(tensor)
    if dist.get_rank():
        sleeps_elsewhere()
    ready()
    dist.all_reduce(tensor)


def reduces(device: str) -> None:
    import torch
    import torch.distributed as dist

    context = None if device == "cuda" else with_context()
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).to(device))
    batch = torch.ones(64, 1024, device=device)
    for _ in range(3):
        model(batch).mean().backward()
    if dist.get_rank():
        sleeps_elsewhere()
    ready()
    model(batch).mean().backward()
    del context


def waits(device: str) -> None:
    if device == "cuda":
        import torch

        stream = torch.cuda.current_stream()
        torch.cuda._sleep(FOR_EVER)
        synchronize = stream.synchronize
    else:
        cuda = with_context()
        cuda.call("cuLaunchKernel", None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        synchronize = partial(cuda.call, "cuStreamSynchronize", None)
    ready()
    synchronize()


def sleeps(device: str) -> None:
    from mpmon.doctor.gpu.programs.holds import Cuda

    # Before there is a context: torch has the same one.
    Cuda().call("cuDevicePrimaryCtxSetFlags_v2", ctypes.c_int(0), ctypes.c_uint(SCHED_BLOCKING_SYNC))
    waits(device)


def with_context() -> Cuda:
    """The driver's own library, or the stand-in for it."""
    from mpmon.doctor.gpu.programs.holds import Cuda

    cuda = Cuda()
    cuda.context()
    return cuda


def spins(_device: str) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4096, 4096, device="cuda"), device_ids=[0])
    batch = torch.ones(4096, 4096, device="cuda")
    until = time.monotonic() + WORKS_S
    while time.monotonic() < until:
        model(batch).mean().backward()
        dist.all_reduce(batch[0].clone())
        torch.cuda.synchronize()
    record()
    ready()
    torch.cuda._sleep(FOR_EVER)
    step(model, batch)


def step(model, batch) -> float:
    """Waits for what comes after the kernel that never ends."""
    return model(batch).mean().item()


def record() -> None:
    """Collectives so far, as mpmon reads them."""
    path = os.environ.get("FLIGHT_RECORD")
    if path:
        from torch._C import _distributed_c10d

        with open(path, "wb") as file:
            file.write(_distributed_c10d._dump_nccl_trace_json(includeCollectives=True, onlyActive=False))


class Slow:
    """A dataset whose items take their time."""

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> float:
        time.sleep(0.2)
        return float(index)


def starves(_device: str) -> None:
    import torch
    from torch.utils.data import DataLoader

    weights = torch.ones(1024, 1024, device="cuda")
    ready()
    for batch in DataLoader(Slow(), batch_size=4, num_workers=1):
        (weights * batch.to("cuda").sum()).sum().item()


def shares(_device: str) -> None:
    cuda = with_context()
    cuda.take("64")
    sleeps_elsewhere()


def grows(_device: str) -> None:
    cuda = with_context()
    if os.environ["RANK"] == "0":
        sleeps_elsewhere()
    ready()
    while True:
        cuda.take(GROWS_MIB)
        time.sleep(GROWS_EVERY_S)


DOES = {
    "grows": grows,
    "reduces": reduces,
    "shares": shares,
    "sleeps": sleeps,
    "spins": spins,
    "starves": starves,
    "straggles": straggles,
    "waits": waits,
}


if __name__ == "__main__":
    end_with_parent()
    if sys.argv[1] == "rank":
        DOES[sys.argv[2]](sys.argv[3])
    else:
        launch(sys.argv[1], int(sys.argv[2]), sys.argv[3])
