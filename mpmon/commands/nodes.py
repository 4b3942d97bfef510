"""`mpmon --slurm JOB`, `--nodes NAMES`, `--pods SELECTOR`: one job on many nodes, shown like one on this machine."""

from __future__ import annotations

from contextlib import contextmanager

from mpmon.commands import live, show
from mpmon.errors import UsageError, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Generator

    from mpmon.nodes.front import NodesWatch
    from mpmon.nodes.transports import Transport


def watch(given: Namespace) -> int:
    """Watch the job as the options say; the exit status.

    Raises:
        MpmonError: the nodes cannot be found, or none of them can be looked at.
    """
    sink = show.sink(given)
    with looks(given, sink) as watched:
        return show.show(given, watched, sink)


@contextmanager
def looks(given: Namespace, sink: show.Sink) -> Generator[NodesWatch, None, None]:
    """The samples of the job on its nodes.

    Raises:
        MpmonError: as `watch`.
    """
    from mpmon.nodes.front import NodesWatch
    from mpmon.nodes.wire import Watch
    from mpmon.session.cadence import SOON_S
    from mpmon.snapshot_buffer import SnapshotBuffer

    wish = Watch(interval=given.interval or SOON_S, stacks=given.stacks, seconds=given.seconds, eager=sink == "report")
    found = transport(given)
    with live.recording(given) as recorder, live.alarmed(given) as alarm:
        if alarm:
            alarm.on_screen = sink == "screen"
        yield NodesWatch(
            found, wish, recorder=recorder, buffer=SnapshotBuffer() if sink == "screen" else None,
            tell=None if sink == "screen" else tell, alarm=alarm, ras=given.nccl_ras,
        )  # fmt: skip


def transport(given: Namespace) -> Transport:
    """The transport to the nodes, as the options name it.

    Raises:
        UsageError: it is none.
    """
    if given.pods is None and (given.namespace or given.container):
        raise UsageError("--namespace and --container require --pods.", "For example: --pods job-name=train -n lab")
    if given.slurm is not None:
        from mpmon.nodes.transports.slurm import Slurm

        return Slurm(given.slurm, given.agent)
    if given.nodes is not None:
        from mpmon.nodes.transports.ssh import Ssh

        return Ssh(given.nodes, given.agent)
    from mpmon.nodes.transports.pods import Pods

    return Pods(given.pods or "", namespace=given.namespace, container=given.container, program=given.agent)
