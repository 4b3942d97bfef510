"""torch itself: how it starts processes, backward passes, the shared memory manager."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import HelperRow, Library, Wait, collectives, waits

BACKWARD = "backward"
"""The operation of a backward pass, in which DistributedDataParallel and FSDP reduce gradients."""

LIBRARY = Library(
    waits=(
        waits(Wait.JOIN_PROCESS, "torch/multiprocessing/spawn.py", "join", "its processes to exit"),
        collectives("torch/autograd/graph.py", "_engine_run_backward", BACKWARD, encloses=True),
    ),
    understood=("torch",),
    helpers=(HelperRow("shm manager", "torch_shm_manager", "torch_shm"),),
)  # fmt: skip
