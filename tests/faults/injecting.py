"""One fault in one healthy job under the eyes of mpmon."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from pathlib import Path

import msgspec

from mpmon.diagnosis.findings import Finding, Observation, Verdict
from mpmon.probes.files import Proc
from mpmon.session.sampler import Sampler
from mpmon.session.watch import LiveWatch
from tests.live.running import Program
from tests.patience import patience

FOLDER = "healthy"

STOPPED, KILLED, FIFO = "is stopped", "is killed", "fifo"
STOPS = "stops in a task"

HEALTHY = (8, 20)
"""Rounds before the fault, at least and at most."""

KEPT = 5
"""Rounds in which the finding has to stay."""

BACK = 20
"""Rounds that are watched once the fault was taken back."""

SETTLED = 8
"""The last of them, in which it has to be gone."""

LONGEST_S = 90.0
"""From the fault to the finding. How long it took is printed; this only ends what would not."""

START_S = 180.0
"""To the first steps of the job: nine processes import torch, perhaps on a machine that does other things."""

INTERVAL_S = 0.5


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong where."""

    shape: str
    """The program: `train`."""
    kind: str
    """`is stopped`, `is killed`, `fifo`, or an order that the program knows: it marks the line with `# WRONG kind`."""
    whom: str = ""
    """Who is stopped or killed, by the name under which the program tells pids; else the first that comes takes the order."""
    ready: tuple[str, ...] = ()
    """What the program says once it is at work."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.shape, self.whom, self.kind)))


_READY = {
    "train": tuple(f"{who}{rank}" for who in ("rank", "worker") for rank in range(3)),
    "stages": ("feeder",),
    "pool": ("at_work",),
    "threads": ("worker0", "worker1"),
    "tensors": ("producer", "consumer", "ready"),
    "peers": ("server",),
}

_STOPPED = {
    "train": ("rank0", "rank2", "worker1"),
    "stages": ("feeder",),
    "pool": (),
    "threads": (),
    "tensors": ("producer", "consumer"),
    "peers": ("server",),
}
"""Of workers that take from one queue one can do all, so that the stop of another hangs nothing unless it is in a task."""

_KILLED = {"stages": ("feeder",)}
"""Where nobody notices that; others end with an error, or start another one. So may who is just receiving a tensor of torch's."""

_ORDERS = {
    "train": ("spins", FIFO, "turns"),
    "stages": ("silent", "keeps", "unread"),
    "pool": (STOPS, "spins", FIFO),
    "threads": ("spins", FIFO, "keeps", "silent"),
    "tensors": ("silent", "unread"),
    "peers": ("unread",),
}

FAULTS = tuple(
    Fault(shape, kind, whom, ready)
    for shape, ready in _READY.items()
    for kind, whom in (
        *((STOPPED, whom) for whom in _STOPPED[shape]),
        *((KILLED, whom) for whom in _KILLED.get(shape, ())),
        *((order, "") for order in _ORDERS[shape]),
    )
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one."""

    fault: Fault
    hit: tuple[int, ...]
    """Pids; where a file has become a FIFO, all that read it are."""
    line: int | None
    """Of the program, where it stands now."""
    early: int
    """Rounds that said *hung* while the job was healthy."""
    finding: Finding | None
    """The last one."""
    after_s: float | None = None
    """From the fault to the first *hung*."""
    changed: int = 0
    """Rounds that named somebody else, or nobody, after the first finding."""
    late: int = 0
    """Rounds that still said *hung* long after the fault was taken back."""
    because: str = ""

    @property
    def named(self) -> bool:
        """Those who were hit are named, and nobody else."""
        pids = {suspect.pid for suspect in self.finding.suspects} if self.finding else set[int]()
        return bool(pids) and pids <= set(self.hit)

    @property
    def at_line(self) -> bool:
        """At the line where that happened, if it has one."""
        places = [suspect.frame for suspect in self.finding.suspects] if self.finding else []
        return self.line is None or any(place is not None and place.line == self.line for place in places)

    @property
    def right(self) -> bool:
        """All that is asked."""
        return self.named and self.at_line and not (self.early or self.changed or self.late)


def inject(fault: Fault, seed: int) -> Outcome:
    """Start the job, watch it, have it go wrong, and look on."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / "data").write_text("1")
        with Program(f"{FOLDER}/{fault.shape}.py", environment={"ORDERS": folder}) as program:
            program.hear(*fault.ready, seconds=START_S)
            return _Injection(fault, program, Path(folder), random.Random(seed).randint(*HEALTHY)).run()


class _Injection:
    def __init__(self, fault: Fault, program: Program, folder: Path, healthy: int) -> None:
        self._fault, self._program, self._folder = fault, program, folder
        self._watch = LiveWatch(
            lambda now: Sampler(Proc(), program.pid, now=now, host="host", eager=True), interval=INTERVAL_S
        )
        self._rounds = iter(self._watch)
        self._healthy = healthy

    def run(self) -> Outcome:
        early = sum(_is_hung(self._round()) for _ in range(self._healthy))
        at = time.time()
        self._go_wrong()
        seen = self._round()
        left = patience(LONGEST_S)
        while not _is_hung(seen) and next(left, None) is not None:
            seen = self._round()
        after_s = time.time() - at if _is_hung(seen) else None
        hit = self._hit()
        first, changed = seen, 0
        for _ in range(KEPT if after_s else 0):
            seen = self._round()
            changed += _named(seen) != _named(first)
        late = self._take_back(hit) if after_s else 0
        self._watch.stop()
        findings = first.diagnosis.findings
        return Outcome(
            fault=self._fault, hit=hit, line=self._line(), early=early, finding=findings[0] if findings else None,
            after_s=after_s, changed=changed, late=late, because=first.diagnosis.because,
        )  # fmt: skip

    def _round(self) -> Observation:
        seen = next(self._rounds, None)
        assert seen is not None, f"{self._fault}: the job has ended"
        return seen

    def _go_wrong(self) -> None:
        if self._fault.whom:
            number = signal.SIGSTOP if self._fault.kind == STOPPED else signal.SIGKILL
            os.kill(self._program.pids[self._fault.whom], number)
        elif self._fault.kind == FIFO:
            pipe = self._folder / "fifo"
            os.mkfifo(pipe)
            pipe.rename(self._folder / "data")
        else:
            (self._folder / self._fault.kind).touch()

    def _hit(self) -> tuple[int, ...]:
        if self._fault.whom:
            return (self._program.pids[self._fault.whom],)
        if self._fault.kind == FIFO:
            return tuple(process.pid for process in self._program.family())
        return tuple(int(path.suffix[1:]) for path in self._folder.glob(f"{self._fault.kind}.*"))

    def _line(self) -> int | None:
        return None if self._fault.whom else self._program.line(f"# WRONG {self._fault.kind}")

    def _take_back(self, hit: tuple[int, ...]) -> int:
        """Rounds that still call it hung."""
        if self._fault.kind not in (STOPPED, STOPS):
            return 0
        for pid in hit:
            os.kill(pid, signal.SIGCONT)
        rounds = [_is_hung(self._round()) for _ in range(BACK)]
        return sum(rounds[-SETTLED:])


def _is_hung(seen: Observation) -> bool:
    return seen.diagnosis.verdict is Verdict.HUNG


def _named(seen: Observation) -> set[int]:
    findings = seen.diagnosis.findings
    return {suspect.pid for suspect in findings[0].suspects} if findings else set()
