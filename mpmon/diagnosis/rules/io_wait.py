"""A process waits for a disk, a network file system or a peer that does not answer.

What it looks like: a thread in `recv`, `connect` or `read` without a time limit whose other end is not on this machine,
or in a file of a file system whose server does not answer (mpmon asks it as well), or in state D
(uninterruptible); or a program that others wrote stands in a file, say `cat` on a mount; or a
device, such as a serial line, sends nothing.
Why: a server that is gone, NFS or FUSE that hangs, a socket without timeout.
What to do: give the call a timeout (`socket.settimeout`, `requests.get(timeout=…)`); look at the mount.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.needs.file_servers import ADVICE
from mpmon.diagnosis.parts import is_at_exit, is_other_program, is_outside
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import mount_words
from mpmon.model import Blocked, Mount

CAUSE = "io-wait"
NEEDS = frozenset({"blocked", "handles"})


def claim(knot: Knot) -> Claim | None:
    """The root waits for somebody outside the job, or in the kernel for a device."""
    blocked = knot.blocked()
    if knot.motion() is not Motion.FROZEN or blocked is None:
        return None
    uninterruptible = knot.ending is Ending.LEAF and blocked.state == "D"
    # What Python code does with a file the rules about its role tell; another program has nothing else to show.
    in_file = knot.ending is Ending.LEAF and knot.standing().kind is Wait.FILE
    device = _device(knot) if in_file else None
    if is_at_exit(knot) or not (is_outside(knot) or uninterruptible or device or is_other_program(knot)):
        return None
    silent = knot.case.silent_mount(knot.root) if knot.root else None
    if silent:
        return _silent(knot, blocked, silent)
    called = f"{blocked.syscall} in state {blocked.state} (kernel: {blocked.wchan})"
    what = knot.outside.who if knot.outside else device or called
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


def _silent(knot: Knot, blocked: Blocked, mount: Mount) -> Claim:
    """The server of a file system does not answer."""
    called = f"in {blocked.syscall}" if blocked.syscall else "for a page of a file that it maps"
    kernel = f", kernel function {blocked.wchan}" if blocked.wchan else ""
    return Claim(
        summary=(
            f"{mount_words(mount)} does not answer: {knot.role()} has waited {called} for {knot.for_how_long()}{knot.at()}"
        ),
        evidence=(
            f"thread {blocked.tid} of pid {blocked.pid} sleeps {called} in state {blocked.state}{kernel}",
            *knot.edge_evidence(),
        ),
        advice=ADVICE,
        certainty=Certainty.PROVED,
    )


def _device(knot: Knot) -> str | None:
    """The path of the device that the root waits for."""
    items = knot.case.waits_on(knot.root) if knot.root else ()
    return next((item.path for item in items if item.kind in ("terminal", "device")), None)
