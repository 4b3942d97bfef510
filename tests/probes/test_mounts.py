"""Which file system a path or a device lies on, by recorded and by our own mountinfo."""

from __future__ import annotations

import os

import pytest

from mpmon.probes.files import Proc
from mpmon.probes.mounts import LOCAL, MountPoint, Mounts, mounts_of

INFO = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:45 / /data rw,relatime shared:2 - nfs4 server:/export rw,vers=4.2
31 30 0:46 / /data/deep\040place rw - fuse.sshfs me@there:/x\011y rw
32 22 259:3 / /scratch rw master:1 propagate_from:2 - xfs /dev/nvme0n1 rw
33 22 0:47 / /data2 rw - nfs server2:/ rw
34 22 0:48 / /scratch rw - lustre 10.0.0.1@tcp:/fs rw
"""

NFS = MountPoint("00:2d", "/data", "nfs4", "server:/export")
SSHFS = MountPoint("00:2e", "/data/deep place", "fuse.sshfs", "me@there:/x\ty")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc/passwd", "ext4"), ("/data", "nfs4"), ("/data/a", "nfs4"), ("/data/deep place/a", "fuse.sshfs"),
        ("/data2/a", "nfs"), ("/datax", "ext4"), ("/scratch/a", "lustre"),
    ],
)  # fmt: skip
def test_the_mount_of_a_path_is_the_innermost_and_of_two_the_later(path: str, kind: str) -> None:
    mount = Mounts(INFO).of_path(path)
    assert mount
    assert mount.kind == kind


def test_a_mount_by_its_id_and_by_its_device() -> None:
    assert Mounts(INFO).by_id(30) == NFS
    assert Mounts(INFO).by_device("00:2e") == SSHFS
    assert Mounts(INFO).by_id(99) is None


def test_the_ones_that_somebody_else_serves() -> None:
    assert [mount.kind for mount in Mounts(INFO).served()] == ["nfs4", "fuse.sshfs", "nfs", "lustre"]


@pytest.mark.parametrize(
    "text", ["", "\n", "1 2 3", "a b c d e f - g h i", "1 2 x:y / / rw - ext4 a b", "- - - - - - - -"]
)
def test_what_is_no_mountinfo_has_no_mounts(text: str) -> None:
    assert Mounts(text).of_path("/") is None


def test_our_own_mounts() -> None:
    root = mounts_of(Proc(), os.getpid()).of_path("/proc/self")
    assert root
    assert root.kind == "proc"
    assert root.kind in LOCAL


def test_a_process_that_is_gone_has_none() -> None:
    assert mounts_of(Proc(), 1 << 22).of_path("/") is None
