"""The file system of a process's path or open file: proc_pid_mountinfo(5). No file system is accessed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from mpmon.probes.files import Proc

MOUNTS_LIMIT = 1 << 22
"""Most bytes read of a mountinfo file: some ten thousand mounts."""

LOCAL = frozenset(
    """
    autofs bcachefs binfmt_misc bpf btrfs cgroup cgroup2 configfs cramfs debugfs devpts devtmpfs efivarfs erofs exfat ext2
    ext3 ext4 f2fs fusectl hugetlbfs iso9660 jfs mqueue nilfs2 nsfs ntfs3 overlay pipefs proc pstore ramfs reiserfs
    rootfs rpc_pipefs securityfs selinuxfs sockfs squashfs sysfs tmpfs tracefs udf vfat xfs zfs
    """.split()  # noqa: SIM905  a table of words
)
"""Kinds of file systems that serve an open file from this machine's memory, without any server.

All others (NFS, SMB, Lustre, FUSE, 9p ...) may depend on a server that does not answer: they are never touched
directly.
"""

_ESCAPED = re.compile(r"\\([0-7]{3})")


class MountPoint(NamedTuple):
    """One line of the file."""

    device: str
    """As proc_pid_maps(5) and proc_locks(5) write it: hexadecimal `MAJOR:MINOR`."""
    path: str
    """Where the process sees it."""
    kind: str
    """`nfs4`, `fuse.sshfs`, `ext4` ..."""
    source: str
    """`server:/export`, `/dev/sda1` ..."""

    @property
    def is_local(self) -> bool:
        """It serves an open file without any server."""
        return self.kind in LOCAL


class Mounts:
    """The mounts that one process sees."""

    def __init__(self, text: str) -> None:
        """`text` is the content of the file."""
        self._by_id: dict[int, MountPoint] = {}
        for line in text.split("\n"):
            fields = line.split(" ")
            if len(fields) >= 10 and "-" in fields[6:]:
                rest = fields[fields.index("-", 6) + 1 :]
                if len(rest) >= 2 and fields[0].isdigit() and fields[2].replace(":", "").isdigit():
                    self._by_id[int(fields[0])] = MountPoint(
                        _device(fields[2]), _plain(fields[4]), rest[0], _plain(rest[1])
                    )

    def by_id(self, number: int) -> MountPoint | None:
        """The mount of this id, as `mnt_id` of proc_pid_fdinfo(5) names it; `None` if the process does not see it."""
        return self._by_id.get(number)

    def served(self) -> list[MountPoint]:
        """The mounts that are not local, each device once."""
        return list({mount.device: mount for mount in self._by_id.values() if not mount.is_local}.values())

    def by_device(self, device: str) -> MountPoint | None:
        """A mount of this device."""
        return next((mount for mount in self._by_id.values() if mount.device == device), None)

    def of_path(self, path: str) -> MountPoint | None:
        """The mount that an absolute path is on, by its text alone: links in it are not followed."""
        best: MountPoint | None = None
        # Of two mounts at one place, the later one hides the earlier.
        for mount in self._by_id.values():
            inside = mount.path in ("/", path) or path.startswith(mount.path + "/")
            if inside and (best is None or len(mount.path) >= len(best.path)):
                best = mount
        return best


def mounts_of(proc: Proc, pid: int) -> Mounts:
    """The mounts that the process sees; none if they cannot be read."""
    try:
        return _parsed(proc.read(pid, "mountinfo", limit=MOUNTS_LIMIT))
    except OSError:
        return _parsed(b"")


@lru_cache(maxsize=8)
def _parsed(text: bytes) -> Mounts:
    return Mounts(text.decode("utf-8", "replace"))


def _device(number: str) -> str:
    major, _, minor = number.partition(":")
    return f"{int(major):02x}:{int(minor):02x}"


def _plain(word: str) -> str:
    """Blanks, tabs, line feeds and backslashes are written as octal numbers."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), word)
