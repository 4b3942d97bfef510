"""Threads that wait for a file on a server that does not answer: NFS, SMB, Lustre, FUSE."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.graph import Need, Outside
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.words import age, mount_words
from mpmon.model import Mount

ADVICE = (
    "Look after its server: until it answers, whoever touches a file there waits for ever.",
    "NFS: umount -f PATH lets the waiting threads go. FUSE: write 1 to /sys/fs/fuse/connections/N/abort.",
)


def file_server(case: Case, key: ThreadKey, mount: Mount) -> Need:
    """The server alone can end the wait: the kernel named the file system, and asked by mpmon it does not answer either."""
    asked_for = age(case.now - (mount.unanswered_since or case.now))
    return Need(
        (Outside(f"{mount_words(mount)}, which does not answer"),), exact=case.names_mount(key), words=f"a file on {mount.path}",
        evidence=f"{mount_words(mount)} was asked for its size by mpmon as well, and has not answered for {asked_for}",
    )  # fmt: skip
