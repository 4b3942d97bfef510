"""A live job: which probes its sampler uses, and how samples are shown and recorded."""

from __future__ import annotations

import math
import os
import sys
from contextlib import contextmanager, nullcontext

from mpmon.commands import show
from mpmon.errors import LONGEST, CannotTell, UsageError, tell
from mpmon.printable import in_bounds, written_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    from mpmon.alarm import Alarm
    from mpmon.probes.files import Proc
    from mpmon.probes.flight_recorder import FlightRecorder
    from mpmon.probes.nccl_ras import Address
    from mpmon.session.clock import LiveClock
    from mpmon.session.nccl_ras import NcclRas
    from mpmon.session.recording import Recorder
    from mpmon.session.sampler import Sampler
    from mpmon.session.watch import LiveWatch


class Extras:
    """What a watch does besides showing samples: recording, alarm, extra sources."""

    def __init__(
        self, proc: Proc, recorder: Recorder | None, flight_recorder: FlightRecorder | None, alarm: Alarm | None
    ) -> None:
        self.proc = proc
        self.recorder = recorder
        self.alarm = alarm
        self.flight_recorder = flight_recorder


def check_machine() -> None:
    """
    Raises:
        CannotTell: no processes can be looked at here.
    """
    if not sys.platform.startswith("linux"):
        raise CannotTell("a live job can be read on Linux only.", "Recordings open anywhere: mpmon --replay FILE")
    if not os.path.exists("/proc/self/stat"):
        raise CannotTell(
            "/proc is not mounted, and without it mpmon cannot see any process.",
            "Mount it: mount -t proc proc /proc",
        )


@contextmanager
def extras(given: Namespace) -> Generator[Extras, None, None]:
    """As the options say, which may be wrong: a command that starts a job calls this first, so that no job is started for
    nothing.

    Raises:
        UsageError: there is no such file, it cannot be made, or it is not what it should be.
        Silent: its file system does not answer.
        CannotTell: no job can be watched here.
    """
    check_machine()
    proc = _proc()
    flight_recorder: FlightRecorder | None = None
    try:
        flight_recorder = _flight_recorder(given.flight_recorder, proc) if given.flight_recorder else None
        with recording(given) as recorder, alarmed(given) as alarm:
            yield Extras(proc, recorder, flight_recorder, alarm)
    finally:
        if proc.aside:
            proc.aside.close()
        if flight_recorder:
            flight_recorder.close()


@contextmanager
def recording(given: Namespace) -> Generator[Recorder | None, None, None]:
    """The writer of the --record file, if one was given.

    Raises:
        UsageError: it cannot be made.
        Silent: its file system does not answer.
    """
    if given.record is None:
        yield None
        return
    recorder = _recorder(given.record)
    try:
        yield recorder
    finally:
        recorder.close()
        if recorder.problem:
            tell(f"the end of the recording {given.record} is missing: {recorder.problem}.")


@contextmanager
def alarmed(given: Namespace) -> Generator[Alarm | None, None, None]:
    """The alarm of --on-hang, if given; waits for its last call on exit.

    Raises:
        UsageError: it is empty.
    """
    if given.on_hang is None:
        yield None
        return
    if not given.on_hang.strip():
        raise UsageError("the command of --on-hang is empty.", "For example: --on-hang 'mail -s hung ada@lab'")
    from functools import partial

    from mpmon.alarm import Alarm
    from mpmon.reports import text

    alarm = Alarm(given.on_hang, partial(text.render, ascii_only=given.ascii), tell=tell, echo=_echo)
    try:
        yield alarm
    finally:
        alarm.close()


def _echo(line: str) -> None:
    """Prints the command's output to standard error, since standard output carries the reports or belongs to the job."""
    print(in_bounds(written_out(line), LONGEST), file=sys.stderr, flush=True)


def _proc() -> Proc:
    """The machine's processes, with the helper for reads that may never return."""
    from mpmon.probes.aside import Aside
    from mpmon.probes.files import Proc

    aside = Aside()
    return Proc(aside=aside if aside.start() else None)


def watch(given: Namespace, pid: int) -> int:
    """Watch the job under a pid as the options say; the exit status."""
    sink = show.sink(given)
    # The picture comes first: what the extras need takes longer to import than a glance at the job.
    with _first_frame(given, pid, sink), extras(given) as found:
        return show.show(given, looks(given, pid, found, sink), sink)


def watch_with(given: Namespace, pid: int, found: Extras) -> int:
    """The same with existing extras."""
    sink = show.sink(given)
    with _first_frame(given, pid, sink):
        return show.show(given, looks(given, pid, found, sink), sink)


def _first_frame(given: Namespace, pid: int, sink: show.Sink) -> AbstractContextManager[None]:
    on_terminal = sink == "screen" and not show.in_browser()
    return show.first_frame(given, pid) if on_terminal else nullcontext()


def _flight_recorder(sources: list[str], proc: Proc) -> FlightRecorder:
    from mpmon.probes import flight_recorder

    return flight_recorder.FlightRecorder(flight_recorder.sources(sources, proc))


def _recorder(name: str) -> Recorder:
    from pathlib import Path

    from mpmon.session.recording import Recorder

    return Recorder(Path(name))


def looks(given: Namespace, pid: int, found: Extras, sink: show.Sink, clock: LiveClock | None = None) -> LiveWatch:
    """The samples of the job under a pid, with times from `clock`."""
    from mpmon.session.cadence import SOON_S
    from mpmon.session.clock import LiveClock
    from mpmon.session.watch import LiveWatch
    from mpmon.snapshot_buffer import SnapshotBuffer

    def make_sampler(now: Callable[[], float]) -> Sampler:
        return _sampler(given, pid, found, now, eager=sink == "report")

    buffer = SnapshotBuffer() if sink == "screen" else None
    # A recording should have a round for every second.
    may_rest = sink == "screen" and not found.recorder
    if found.alarm:
        found.alarm.on_screen = sink == "screen"
    clock = clock or LiveClock()
    return LiveWatch(
        make_sampler, interval=given.interval or (None if may_rest else SOON_S), recorder=found.recorder, buffer=buffer,
        clock=clock, alarm=found.alarm,
        ras=_nccl_ras(given.nccl_ras, clock) if given.nccl_ras else None,
    )  # fmt: skip


def _nccl_ras(address: Address, clock: LiveClock) -> NcclRas:
    from mpmon.session.nccl_ras import NcclRas

    return NcclRas(address, clock.now)


def _sampler(given: Namespace, pid: int, found: Extras, now: Callable[[], float], *, eager: bool) -> Sampler:
    """The one place where it is decided which probes look at a job."""
    from mpmon.probes.addresses import addresses
    from mpmon.probes.aside.hosted import hosted
    from mpmon.probes.figures import FiguresProbe
    from mpmon.probes.files import Proc
    from mpmon.probes.ipc import IpcProbe
    from mpmon.probes.nvml.client import NvmlProbe
    from mpmon.probes.shim import ShimProbe
    from mpmon.session.sampler import Sampler

    # Its own, because a sampler may be abandoned.
    proc = Proc(aside=found.proc.aside)
    side_probes = (
        NvmlProbe(proc, eager=eager),
        hosted(proc, IpcProbe, "shared memory", eager=eager, settings={"eager": eager}),
        hosted(proc, ShimProbe, "shim", eager=eager),
        FiguresProbe(proc, os.cpu_count() or 1),
    )
    return Sampler(
        proc, pid, now=now, host=os.uname().nodename, addresses=addresses(), stacks=given.stacks, eager=eager,
        seconds=given.seconds if eager else math.inf, flight_recorder=found.flight_recorder, side_probes=side_probes,
    )  # fmt: skip
