"""A file of reference counts was removed while it is in use.

What it looks like: memory of the producer is never freed, without any error.
Why: a cleaner, a script, or systemd at logout (RemoveIPC=yes) emptied /dev/shm.  Consumers cannot open the file any more, so
what they give back is not counted.
What to do: set RemoveIPC=no in /etc/systemd/logind.conf for users who train, leave /dev/shm/torch_* alone while jobs run,
and restart the producer.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.findings import Remark
from mpmon.model import SharedFile

TOPIC = "shm-deleted"

_ADVICE = (
    "Restart the producer: what it has sent from this file can never be given back.",
    "Look who empties /dev/shm: RemoveIPC=yes of logind.conf at the user's logout, a clean-up script, tmpreaper.",
)


def remarks(case: Case) -> Iterator[Remark]:
    """One for each file, of those that are refcounters for certain."""
    named = {row.file for row in case.snapshot.exports}
    for row in case.snapshot.shared_files:
        name = row.path.rpartition("/")[2]
        producer = case.ipc.ground.inside.get(row.creator or 0)
        if row.kind != "refcounter" or not row.deleted or producer is None:
            continue
        is_sure = name in named or producer in case.ipc.ground.with_context
        if is_sure and producer in case.ipc.ground.users.get(row.id, ()):
            yield _remark(case, row, producer)


def _remark(case: Case, row: SharedFile, producer: int) -> Remark:
    return Remark(
        topic=TOPIC, pids=(producer,),
        summary=f"the reference counts of {case.ipc.ground.who(producer)} were removed from /dev/shm while they are in use: "
        f"{row.live_slots or 0} sendings of CUDA memory can never be given back",
        evidence=(f"/proc/{producer}/maps: {row.path} (deleted)",), advice=_ADVICE,
    )  # fmt: skip
