"""The shape of torch's DataLoader in plain multiprocessing.

One index queue per worker, one result queue for all, batches delivered in order, two batches requested ahead per worker: what
`torch.utils.data.dataloader._MultiProcessingDataLoaderIter` does, without tensors.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import Protocol

PREFETCH = 2


class Items(Protocol):
    """A map-style dataset."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> float: ...


Indices = tuple[int, list[int]]
Batch = tuple[int, list[float]]


def worker_loop(dataset: Items, indices: multiprocessing.Queue[Indices], results: multiprocessing.Queue[Batch]) -> None:
    """Serve one worker's index queue forever."""
    while True:
        number, wanted = indices.get()
        results.put((number, [dataset[i] for i in wanted]))


class DataLoader:
    """Batches of a dataset, made by worker processes."""

    def __init__(self, dataset: Items, *, batch_size: int, num_workers: int) -> None:
        self.dataset = dataset
        self.batches = [
            list(range(first, min(first + batch_size, len(dataset)))) for first in range(0, len(dataset), batch_size)
        ]
        self.num_workers = num_workers

    def __iter__(self) -> Iterator[list[float]]:
        results: multiprocessing.Queue[Batch] = multiprocessing.Queue()
        index_queues = self._start_workers(results)
        ahead = PREFETCH * self.num_workers
        for number in range(min(ahead, len(self.batches))):
            self._ask(index_queues, number)
        arrived: dict[int, list[float]] = {}
        for number in range(len(self.batches)):
            while number not in arrived:
                done, batch = results.get()
                arrived[done] = batch
            if number + ahead < len(self.batches):
                self._ask(index_queues, number + ahead)
            yield arrived.pop(number)

    def _start_workers(self, results: multiprocessing.Queue[Batch]) -> list[multiprocessing.Queue[Indices]]:
        queues: list[multiprocessing.Queue[Indices]] = [multiprocessing.Queue() for _ in range(self.num_workers)]
        for queue in queues:
            multiprocessing.Process(target=worker_loop, args=(self.dataset, queue, results), daemon=True).start()
        return queues

    def _ask(self, queues: list[multiprocessing.Queue[Indices]], number: int) -> None:
        queues[number % self.num_workers].put((number, self.batches[number]))
