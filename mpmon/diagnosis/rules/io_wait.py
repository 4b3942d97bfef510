"""A process waits for a disk, a network file system or a peer that does not answer.

What it looks like: a thread is in `recv`, `connect` or `read` without a timeout, and the other end is not on this machine, or
belongs to a server of the job that waits for requests. Or it uses a file on a file system whose server does not answer (mpmon
asks the server too), or is in state D (uninterruptible).
Or a non-Python program is blocked on a file (`cat` on a mount), or a device such as a serial line sends nothing.
Why: a server that is gone, NFS or FUSE that hangs, a socket without a timeout.
What to do: give the call a timeout (`socket.settimeout`, `requests.get(timeout=…)`); check the mount.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.parts import Part, is_at_exit, is_other_program, is_outside, part
from mpmon.diagnosis.edges.file_servers import ADVICE
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.humanize import mount_words
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.waits import Wait, opens_pipe
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.model import Blocked, Mount

CAUSE = "io-wait"
NEEDS = frozenset({"blocked", "handles"})


def match(stuck: StuckSet) -> Match | None:
    """The root waits for a party outside the job, or in the kernel for a device; no rank that the others wait for meanwhile."""
    blocked = stuck.blocked()
    stands = stuck.motion() is Motion.NOT_SCHEDULED or is_outside(stuck)
    if not stands or blocked is None or (stuck.outside and stuck.outside.reason):
        return None
    uninterruptible = stuck.ending is Ending.LEAF and blocked.state == "D"
    # File waits of Python code are left to the rules about its role; of another program nothing else can be seen.
    in_file = stuck.ending is Ending.LEAF and stuck.wait_state().kind is Wait.FILE
    device = _device(stuck) if in_file else None
    if (
        is_at_exit(stuck)
        or part(stuck) is Part.RANK
        or not (is_outside(stuck) or uninterruptible or device or is_other_program(stuck))
    ):
        return None
    silent = stuck.job.silent_mount(stuck.root) if stuck.root else None
    if silent:
        return _silent(stuck, blocked, silent)
    opens = opens_pipe(blocked)
    called = f"{blocked.syscall} in state {blocked.state} (kernel: {blocked.wchan})"
    what = stuck.outside.who if stuck.outside else _idle_party(stuck) or device or (_OTHER_END if opens else called)
    return Match(
        summary=f"{stuck.role()} has been waiting for {stuck.for_how_long()}{stuck.at()} for {what}",
        evidence=(
            f"system call {blocked.syscall}, kernel function {blocked.wchan}, state {blocked.state}",
            *stuck.edge_evidence(),
        ),
        advice=() if opens else _advice(stuck, of_file=in_file or uninterruptible),
    )


_OTHER_END = "the other end of a named pipe to be opened"
_OF_SERVER = (
    "Find out where the answer went: to standard error, into a buffer that was not flushed, or was the request never sent?",
    "Give the wait a time limit.",
)
_OF_PEER = (
    "Give the call a timeout: socket.settimeout(), requests.get(timeout=…).",
    "Check the server at the other end.",
)
_OF_FILE = (
    "Check the device, or the mount that the file is on: findmnt lists the mounts (df itself blocks on one that is dead).",
)


def _advice(stuck: StuckSet, *, of_file: bool) -> tuple[str, ...]:
    return _OF_SERVER if stuck.ending is Ending.DESERTED else _OF_FILE if of_file else _OF_PEER


def _idle_party(stuck: StuckSet) -> str:
    """The other end, which waits for requests itself; empty for any other end of the chain."""
    if stuck.ending is not Ending.DESERTED:
        return ""
    idle = stuck.idle_targets
    return f"{stuck.job.names(idle)}, which {'itself waits' if len(idle) == 1 else 'wait'} for requests"


def _silent(stuck: StuckSet, blocked: Blocked, mount: Mount) -> Match:
    """The server of a file system does not answer."""
    called = f"in {blocked.syscall}" if blocked.syscall else "for a page of a mapped file"
    kernel = f", kernel function {blocked.wchan}" if blocked.wchan else ""
    return Match(
        summary=f"{mount_words(mount)} does not answer: {stuck.role()} has been waiting {called} for "
        f"{stuck.for_how_long()}{stuck.at()}",
        evidence=(
            f"thread {blocked.tid} of pid {blocked.pid} sleeps {called} in state {blocked.state}{kernel}",
            *stuck.edge_evidence(),
        ),
        advice=ADVICE,
        certainty=Certainty.PROVED,
    )


def _device(stuck: StuckSet) -> str | None:
    """The path of the device that the root waits for."""
    items = stuck.job.waits_on(stuck.root) if stuck.root else ()
    return next((item.path for item in items if item.kind in ("terminal", "device")), None)
