"""A file system that the job uses does not answer.

What it looks like: every process that reads, opens or lists anything there blocks, in a wait that no signal ends; so do `df`,
`ls` and `lsof`.  Processes that only have a file open there continue until they touch it.
Why: the server of an NFS, SMB, Lustre or FUSE mount is down or overloaded, or the network to it is cut.
What to do: check the server.  As a last resort, as root: `umount -f PATH` (NFS), or write 1 to the `abort` file of the
connection below /sys/fs/fuse/connections (FUSE).  The waiting calls then fail with an I/O error, in every process of the
machine that uses the mount, and data not yet written is lost.  Mount with `soft` or a timeout where a failed read is better
than a hang.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.edges.file_servers import ADVICE
from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, mount_words, several
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Mount

TOPIC = "mount-silent"


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each file system."""
    for row in job.snapshot.mounts:
        if row.unanswered_since is not None:
            words = f"has not answered for {age(job.now - row.unanswered_since)}"
            yield _remark(
                job, row, f"{mount_words(row)} {words}", "mpmon's own request for its size (statfs) got no answer"
            )
        elif row.problem:
            yield _remark(job, row, f"{mount_words(row)} fails: {row.problem}", "statfs says so")


def _remark(job: JobState, row: Mount, summary: str, evidence: str) -> Remark:
    users = several([job.ipc.ground.who(pid) for pid in row.pids])
    return Remark(
        topic=TOPIC, pids=row.pids, summary=f"{summary}; used by {users}", evidence=(evidence,), advice=ADVICE
    )  # fmt: skip
