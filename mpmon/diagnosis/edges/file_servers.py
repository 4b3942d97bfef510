"""Threads that wait for a file on a server that does not respond: NFS, SMB, Lustre, FUSE."""

from __future__ import annotations

from mpmon.diagnosis.graph import Basis, External, WaitEdge
from mpmon.diagnosis.humanize import age, mount_words
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Mount

ADVICE = (
    "Check its server: until it answers, every process that touches a file there blocks.",
    "Last resort, as root: umount -f PATH (NFS), or write 1 to /sys/fs/fuse/connections/N/abort (FUSE).",
    "The waiting calls of all processes that use the mount then fail with an I/O error, and data not yet written is lost.",
)


def file_server(job: JobState, key: ThreadKey, mount: Mount) -> WaitEdge:
    """Only the server can end the wait: the kernel named the file system, and it does not respond to mpmon either."""
    asked_for = age(job.now - (mount.unanswered_since or job.now))
    return WaitEdge(
        (External(f"{mount_words(mount)}, which does not answer"),),
        basis=Basis.KERNEL.when(job.names_mount(key)), words=f"a file on {mount.path}",
        evidence=f"{mount_words(mount)} was also asked for its size by mpmon, and has not answered for {asked_for}",
    )  # fmt: skip
