"""A file of shared memory was removed while it is in use.

What it looks like: CUDA memory of the producer is never freed, without any error; or get() fails with "No such file or
directory".
Why: a cleaner, a script, or systemd at logout (RemoveIPC=yes) emptied /dev/shm.  Consumers can no longer open a file of
reference counts, so memory they release is not counted; nor a tensor of the sharing strategy file_system, so they never get
it.
What to do: set RemoveIPC=no in /etc/systemd/logind.conf for users who train, leave /dev/shm/torch_* alone while jobs run, and
restart the producer.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import size
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import SharedFile

TOPIC = "shm-deleted"

_ADVICE = (
    "Restart the producer: memory it sent through this file can never be released.",
    "Find out what empties /dev/shm: RemoveIPC=yes in logind.conf at the user's logout, a clean-up script, tmpreaper.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each file of reference counts, and one for the tensors of each creator."""
    yield from _counts(job)
    yield from _tensors(job)


def _counts(job: JobState) -> Iterator[Remark]:
    """Remarks on deleted files that are certainly reference-count files."""
    named = {row.file for row in job.snapshot.exports}
    for row in job.snapshot.shared_files:
        name = row.path.rpartition("/")[2]
        producer = job.ipc.ground.inside.get(row.creator or 0)
        if row.kind != "refcounter" or not row.deleted or producer is None:
            continue
        is_sure = name in named or producer in job.ipc.ground.with_context
        if is_sure and producer in job.ipc.ground.users.get(row.id, ()):
            yield _remark(job, row, producer)


def _remark(job: JobState, row: SharedFile, producer: int) -> Remark:
    return Remark(
        topic=TOPIC, pids=(producer,),
        summary=f"the reference counts of {job.ipc.ground.who(producer)} were removed from /dev/shm while they are in use: "
        f"{row.live_slots or 0} transfers of CUDA memory can never be released",
        evidence=(f"/proc/{producer}/maps: {row.path} (deleted)",), advice=_ADVICE,
    )  # fmt: skip


def _tensors(job: JobState) -> Iterator[Remark]:
    """Remarks on tensor files that were created with a name and no longer have one."""
    found: dict[int, list[SharedFile]] = {}
    for row in job.snapshot.shared_files:
        if row.kind == "storage" and row.deleted and row.count is not None and job.ipc.ground.users.get(row.id):
            found.setdefault(row.creator or 0, []).append(row)
    for creator, rows in sorted(found.items()):
        users = list(dict.fromkeys(pid for row in rows for pid in job.ipc.ground.users[row.id]))
        count = len(rows)
        yield Remark(
            topic=TOPIC, pids=tuple(users),
            summary=f"{count} tensor{'s' if count > 1 else ''} {size(sum(row.size_bytes for row in rows))} made by pid {creator} "
            f"{'were' if count > 1 else 'was'} removed from /dev/shm while in use: a process that has not opened them yet cannot",
            evidence=(f"/proc/{users[0]}/maps: {rows[0].path} (deleted)",),
            advice=("Put them again once nothing removes files: tensors sent under these names are lost.", _ADVICE[1]),
        )  # fmt: skip
