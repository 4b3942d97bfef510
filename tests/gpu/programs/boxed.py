"""A process with a device file of a GPU open, in a container: `boxed NAME [pids]` says its pid as it sees it, and stands.

It has a /dev of its own, in which NAME is a character device that is no GPU; with `pids` a pid namespace of its own, too.
Only root may do that.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys

from tests.gpu.programs.ranks import end_with_parent
from tests.ipc.programs.own_shm import NEW_MOUNTS, NEW_PIDS, PRIVATE, call, mount

NULL = os.makedev(1, 3)
"""Linux's admin-guide/devices.txt: the null device, which anybody may open."""


def main(name: str, *pids: str) -> None:
    """Stand with the file open."""
    call("unshare", NEW_MOUNTS | (NEW_PIDS if pids else 0))
    call("mount", b"none", b"/", None, PRIVATE, None)
    mount(b"tmpfs", b"/dev")
    os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o600, NULL)
    if pids and (child := os.fork()):
        os.waitpid(child, 0)
        return
    end_with_parent()
    if pids:
        mount(b"proc", b"/proc")
    with open(f"/dev/{name}", "rb"):
        print(json.dumps({"pid": os.getpid()}), flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
