"""Items that a dead producer put can never be received.

What it looks like: get() fails with ConnectionRefusedError, FileNotFoundError or EOFError after a producer ended, or receives
CUDA memory that no longer exists; the items before and after are fine.
Why: a CPU tensor is sent as a descriptor that the receiver fetches from the sender while unpickling, and CUDA memory belongs
to the process that made it: both are gone with the producer.  Plain objects survive.
What to do: keep producers alive until everything was received (an event, or a sentinel that is answered), then let them end;
or send copies that need no sender: tensor.numpy(), or set_sharing_strategy("file_system") for CPU tensors.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc import QueueView
from mpmon.diagnosis.ipc.names import in_words
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import QueueRecord

TOPIC = "ipc-dead-producer"

_ADVICE = (
    "Keep a producer alive until everything was received: let it wait for an event before it ends.",
    "Or send data that needs no sender: tensor.numpy(), or set_sharing_strategy('file_system') for CPU tensors.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each queue in which, by the shim's records, every remaining item was put by a dead process."""
    dead = {pid for pid, row in job.ipc.ground.shims.items() if not (row.alive and job.ipc.ground.is_alive(pid))}
    for view in job.ipc.queues if dead else ():
        rows = [row for row in job.ipc.ground.records.get(view.id, ()) if row.pid in dead and row.puts]
        if len(rows) == 1 and view.depth and _sent_tensors(job, rows[0]) and _is_all_of_the_dead(job, view):
            yield _remark(job, view, rows[0])


def _sent_tensors(job: JobState, row: QueueRecord) -> str:
    """How many, in words; empty for none."""
    sent = sum(1 for record in job.snapshot.exports if (record.pid, record.object) == (row.pid, row.object))
    parts = [f"{row.descriptors} descriptors"] if row.descriptors else []
    return " and ".join([*parts, f"{sent} blocks of CUDA memory"] if sent else parts)


def _is_all_of_the_dead(job: JobState, view: QueueView) -> bool:
    """No living process was seen to put into the queue, by its shim or its ledger."""
    state = next((row for row in job.snapshot.queues if row.object == view.id), None)
    putters = {row.pid for row in job.ipc.ground.records.get(view.id, ()) if row.puts}
    putters |= set(state.putters) if state else set[int]()
    return not any(map(job.ipc.ground.is_alive, putters))


def _remark(job: JobState, view: QueueView, row: QueueRecord) -> Remark:
    items = f"{view.depth} item{'s' if view.depth != 1 else ''}"
    site = f", put at {row.put_site}" if row.put_site else ""
    return Remark(
        topic=TOPIC, pids=(row.pid, *view.consumers),
        summary=f"{items} of dead producer {row.pid} in {in_words(view)} can never be received if they hold tensors",
        evidence=(
            f"it sent {_sent_tensors(job, row)} with {row.sent} items{site}, and only pid {row.pid} could have delivered them",
        ),
        advice=_ADVICE,
    )  # fmt: skip
