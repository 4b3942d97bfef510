"""torch.distributed.rpc."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, waits

LIBRARY = Library(
    waits=(
        waits(Wait.REMOTE_END, "torch/distributed/rpc/api.py", "shutdown _wait_all_workers _barrier", "rpc.shutdown"),
        waits(Wait.REMOTE_CALL, "torch/distributed/rpc/api.py", "rpc_sync", "an answer of another process"),
    ),
)  # fmt: skip
