"""torch.utils.data: DataLoader, its workers and the thread that pins memory."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Context, Library, Wait, WorkerRow, functions, waits

LOADER_WORKER = "dataloader worker"
"""The kind of a DataLoader's worker."""

LOADER_PROCESS = "pt_data_worker"
"""The name that torch gives the process of such a worker, proc_pid_comm(5)."""

LIBRARY = Library(
    waits=(
        waits(Wait.LOADER_BATCH, "torch/utils/data/dataloader.py", "_try_get_data _get_data", "next batch"),
        waits(Wait.LOADER_INDEX, "torch/utils/data/_utils/worker.py", "_worker_loop", "work", called="get"),
        waits(Wait.SERVICE, "torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop do_one_step", "batches to pin"),
    ),
    runs=(
        (Context.DATALOADER_WORKER, functions("torch/utils/data/_utils/worker.py", "_worker_loop")),
        (Context.SAMPLER, functions("torch/utils/data/dataloader.py", "_next_index")),
    ),
    workers=(
        WorkerRow(
            LOADER_WORKER, functions("torch/utils/data/_utils/worker.py", "_worker_loop"), "worker_id", LOADER_PROCESS,
            of_pool=False,
        ),
    ),
)  # fmt: skip
