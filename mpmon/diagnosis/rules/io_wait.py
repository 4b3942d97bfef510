"""A process waits for a disk, a network file system or a peer that does not answer.

What it looks like: a thread in `recv`, `connect` or `read` without a time limit whose other end is not on this machine,
or in state D (uninterruptible) in a file; or a program that others wrote stands in a file, say `cat` on a mount.
Why: a server that is gone, NFS or FUSE that hangs, a socket without timeout.
What to do: give the call a timeout (`socket.settimeout`, `requests.get(timeout=…)`); look at the mount.
"""

from __future__ import annotations

from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.motion import Motion
from mpmon.diagnosis.waits import Wait

CAUSE = "io-wait"
NEEDS = frozenset({"blocked", "handles"})


def claim(knot: Knot) -> Claim | None:
    """The root waits for somebody outside the job, or in the kernel for a device."""
    blocked = knot.blocked()
    if knot.motion() is not Motion.FROZEN or blocked is None:
        return None
    outside = knot.ending is Ending.OUTSIDE and knot.standing().kind in (
        Wait.SOCKET,
        Wait.POLL,
        Wait.QUEUE_GET,
        Wait.EVENT_LOOP,
    )
    uninterruptible = knot.ending is Ending.LEAF and blocked.state == "D"
    # What Python code does with a file the rules about its role tell; another program has nothing else to show.
    in_file = knot.ending is Ending.LEAF and knot.standing().kind is Wait.FILE and knot.root not in knot.case.stacks
    if not outside and not uninterruptible and not in_file:
        return None
    what = knot.outside.who if knot.outside else f"{blocked.syscall} in state {blocked.state} (kernel: {blocked.wchan})"
    return Claim(
        summary=f"{knot.role()} has waited for {what} for {knot.for_how_long()}{knot.at()}",
        evidence=(
            f"system call {blocked.syscall}, kernel function {blocked.wchan}, state {blocked.state}",
            *knot.edge_evidence(),
        ),
        advice=(
            "Give the call a timeout: socket.settimeout(), requests.get(timeout=…).",
            "Check the server, or the mount the file is on (mount, df -h).",
        ),
    )
