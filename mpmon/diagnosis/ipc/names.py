"""Names of queues: where a queue was made, or its part in a known library.

The part follows from its observed users, which differ from round to round; so a part that was recognised once is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from mpmon.diagnosis.ipc.ground import Ground
from mpmon.diagnosis.ipc.views import QueueView
from mpmon.diagnosis.libraries.torch_data import LOADER_WORKER
from mpmon.model import QueueRecord

POOL = "pool worker"

RESULTS = "loader result queue"
"""The part of a queue from which a trainer takes its batches."""


def name_of(part: str | None, records: Iterable[QueueRecord]) -> str | None:
    """`None` where nothing is known."""
    made = next((row.made_at for row in records if row.made_at), None)
    if part and made:
        return f"{part}, made at {made}"
    return part or (f"made at {made}" if made else None)


def in_words(view: QueueView) -> str:
    """`the loader result queue (pipe:77)`, `queue pipe:77, made at job.py:9 in main`, `queue pipe:77`."""
    if view.name is None:
        return f"queue {view.id}"
    return f"queue {view.id}, {view.name}" if view.name.startswith("made") else f"the {view.name} ({view.id})"


def part(ground: Ground, producers: tuple[int, ...], consumers: tuple[int, ...], *, bounded: bool) -> str | None:
    """A queue of torch's DataLoader (torch/utils/data/dataloader.py) or of a pool, by its observed producers and consumers.

    Those of a DataLoader have no bound; it puts no more into them than its prefetch factor allows.
    """
    if len(consumers) == 1 and _all_are(ground, LOADER_WORKER, consumers) and not bounded:
        return f"loader index queue {ground.role(consumers[0]).name.rpartition(' ')[2]}"
    if _all_are(ground, LOADER_WORKER, producers) and _serve(ground, producers, consumers) and not bounded:
        return RESULTS
    if _all_are(ground, POOL, consumers):
        return "pool task queue"
    if _all_are(ground, POOL, producers) and _serve(ground, producers, consumers):
        return "pool result queue"
    return None


def _all_are(ground: Ground, kind: str, pids: tuple[int, ...]) -> bool:
    return bool(pids) and all(ground.role(pid).kind == kind for pid in pids)


def _serve(ground: Ground, workers: tuple[int, ...], pids: tuple[int, ...]) -> bool:
    """Whether the workers work for all of these processes."""
    parents = {ground.role(worker).parent for worker in workers}
    return all(pid in parents for pid in pids)
