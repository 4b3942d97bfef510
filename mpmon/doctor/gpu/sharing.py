"""CUDA memory between processes: mpmon's report compared with what the producer and the consumer really do.

Every case starts a job of its own, `programs/shares.py`, and asks mpmon for reports on it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mpmon.doctor.gpu.case import Case, Need, NotHere, Seen, World, Wrong
from mpmon.doctor.gpu.talking import Program, Silent, linked
from mpmon.doctor.gpu.watching import Report, until
from mpmon.probes.ipc.storages import REFCOUNTER

BLOCK = 4 << 20
SMALL = 1024
MANY, MANY_S = 1020, 120.0
"""More exports than torch has events for (CUDA_IPC_MAXIMUM_EVENTS_TO_USE), and how long they may take."""
SHORT_S = 5.0
"""A file that is removed at an end is gone within this time."""

EXPANDABLE = {
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
}


NO_CACHING = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


class Sharing:
    """A producer and a consumer, and mpmon's reports on them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.root = program.pid
        pids = program.hear()
        self.producer: int = pids["producer"]
        self.consumer: int = pids["consumer"]

    def do(self, *words: str, seconds: float = 30.0) -> dict[str, Any]:
        """Raises: Silent."""
        return self._program.order(*words, seconds=seconds)

    def until(self, fits: Callable[[Report], object], expected: str) -> Report:
        """The first report that fits. Raises: Wrong."""
        return until(self.root, fits, expected, _told)

    def settled(self, *states: str) -> list[dict[str, Any]]:
        """The exports once they have these states. Raises: Wrong."""
        report = self.until(lambda report: _states(report) == list(states), f"exports: {_listed(states)}")
        return report["ipc_exports"]


@contextlib.contextmanager
def sharing(
    world: World, *, shim: bool = True, method: str = "spawn", strategy: str = "file_descriptor",
    environment: Mapping[str, str] | None = None,
) -> Generator[Sharing]:  # fmt: skip
    """Such a job.

    Raises:
        Wrong: it does not do what it is told.
    """
    with tempfile.TemporaryDirectory(prefix="mpmon-doctor-", dir="/dev/shm") as folder:
        more = {**(environment or {}), **({"MPMON_RUN_DIR": folder} if shim else {})}
        module = "mpmon.doctor.gpu.programs.shares"
        try:
            with Program(module, method, strategy, world.tensors, environment=more) as program:
                yield Sharing(program)
        except Silent as problem:
            raise Wrong(
                "a producer and a consumer that do what they are told", "they failed", str(problem)
            ) from problem


def _states(report: Report) -> list[str]:
    return [row["state"] for row in report["ipc_exports"]]


def _listed(states: Sequence[str]) -> str:
    return ", ".join(states) or "none"


def _told(report: Report) -> str:
    why = sorted({row["reasons"]["state"] for row in report["ipc_exports"] if "state" in row["reasons"]})
    words = f"exports: {_listed(_states(report))}; remarks: {_listed(sorted(topics(report)))}"
    return f"{words}; {'; '.join(why)}" if why else words


def expect(expected: str, *, of: object, seen: object) -> None:
    """Compare what was seen with what was expected. Raises: Wrong."""
    if of != seen:
        raise Wrong(f"{expected} {of}", str(seen))


def life(world: World, *, strategy: str = "file_descriptor") -> Seen:
    """Held, with size, holder and line; exported again, it is held once; gone when dropped."""
    with sharing(world, strategy=strategy) as job:
        job.do("send", "2", str(BLOCK))
        held = job.settled("held", "held")
        for row in held:
            expect("bytes:", of=BLOCK, seen=row["size_bytes"])
            expect("a count of", of=1, seen=row["refcount"])
            expect("the producer and its consumer:", of=True,
                    seen=(row["producer"], row["consumers"]) == (job.producer, [job.consumer]))  # fmt: skip
            expect("the line that sent it:", of=True, seen="shares.py:" in (row["site"] or ""))
        job.do("again")
        again = job.settled("held", "held")
        expect("slots", of=[row["slot"] for row in held], seen=[row["slot"] for row in again])
        job.do("drop")
        job.settled()
        return Seen("held with size, holder and line, once however often it is exported, and gone when dropped")


def limbo(world: World) -> Seen:
    """Dropped by the producer first: in limbo; then by the consumer: released but uncollected, until the producer
    collects.
    """
    with sharing(world) as job:
        job.do("send", "1", str(BLOCK))
        job.settled("held")
        kept = job.do("forget")["allocated"]
        job.do("collect")
        job.until(lambda report: [row["limbo"] for row in report["ipc_exports"]] == [True], "one export, in limbo")
        job.do("drop")
        job.settled("released-not-collected")
        before = job.do("idle")["allocated"]
        after = job.do("collect")["allocated"]
        job.settled()
        if kept < BLOCK or before < BLOCK or after >= BLOCK:
            raise Wrong(
                f"{BLOCK} bytes taken until they are collected",
                f"{kept} after the drop, {before} before, {after} after",
            )
        return Seen("in limbo, then released but uncollected, then gone", {"freed_bytes": before - after})


def consumer_killed(world: World) -> Seen:
    """A count left by a killed consumer stays 1, and mpmon says that a dead process holds it."""
    with sharing(world) as job:
        job.do("send", "1", str(BLOCK))
        job.settled("held")
        os.kill(job.consumer, signal.SIGKILL)
        rows = job.settled("held-by-dead")
        expect("a count of", of=1, seen=rows[0]["refcount"])
        job.until(lambda report: "ipc-leak-by-death" in topics(report), "the remark ipc-leak-by-death")
        job.do("forget")
        after = job.do("collect")["allocated"]
        if after < BLOCK:
            raise Wrong(f"{BLOCK} bytes that stay taken after ipc_collect", f"{after}")
        return Seen("the count stays 1, the memory stays in use, and the remark is made")


def producer_killed(world: World) -> Seen:
    """The file of counts outlives a killed producer."""
    if not world.computes:
        raise NotHere("a manager removes the file of the stand-in, and CUDA's has none")
    with sharing(world) as job:
        job.do("send", "1", str(BLOCK))
        job.settled("held")
        os.kill(job.producer, signal.SIGKILL)
        wait_for_end(job.producer)
        left = len(counts(job.producer))
        job.settled("unknown")
        expect("files left:", of=1, seen=left)
        return Seen("the file stays, and its export is no longer judged", {"files": left})


def ended(world: World, *, method: str, stays: bool) -> Seen:
    """What is left of the file of counts when producer and consumer end regularly."""
    with sharing(world, method=method) as job:
        job.do("send", "1", str(BLOCK))
        job.settled("held")
        modes = [stat.filemode(path.stat().st_mode) for path in counts(job.producer)]
        expect("one file of counts that names its producer, with the mode", of=["-rw-------"], seen=modes)
        job.do("drop")
        if stays and not world.computes:
            raise NotHere("a manager removes the file of the stand-in, and CUDA's has none")
        job.do("end")
        deadline = time.monotonic() + SHORT_S
        while counts(job.producer) and not stays and time.monotonic() < deadline:
            time.sleep(0.1)
        left = len(counts(job.producer))
        expect("files left:", of=int(stays), seen=left)
        return Seen(f"{'one file' if stays else 'no file'} is left after a start by {method}", {"files": left})


def events(world: World) -> Seen:
    """With more than a thousand live exports, each waits for the whole stream, and mpmon says so."""
    with sharing(world) as job:
        job.do("send", str(MANY), str(SMALL), seconds=MANY_S)
        job.until(lambda report: "ipc-sync-mode" in topics(report), "the remark ipc-sync-mode")
        return Seen(f"reported after {MANY} live exports")


def rebuilt_twice(world: World) -> Seen:
    """Memory rebuilt twice and dropped has a count below 0, and mpmon says so."""
    with sharing(world) as job:
        job.do("twice", str(BLOCK))
        job.do("drop")
        rows = job.settled("rebuilt-twice")
        job.until(lambda report: "ipc-rebuilt-twice" in topics(report), "the remark ipc-rebuilt-twice")
        return Seen(f"a count of {rows[0]['refcount']}")


def expandable(world: World) -> Seen:
    """Memory of expandable segments arrives, or mpmon says why it does not."""
    if not world.computes:
        raise NotHere("the stand-in has no segments")
    with sharing(world, environment=EXPANDABLE) as job:
        refused = job.do("send", "1", str(BLOCK))["said"]
        if refused:
            job.until(lambda report: "ipc-expandable-segments" in topics(report), "the remark ipc-expandable-segments")
            return Seen("refused, and the remark says why")
        rows = job.settled("held")
        expect("bytes:", of=BLOCK, seen=rows[0]["size_bytes"])
        job.do("drop")
        job.settled()
        return Seen("held, and gone when dropped")


def without_cache(world: World) -> Seen:
    """Without its caching allocator torch refuses to share CUDA memory, and mpmon says that what was put is lost."""
    if not world.computes:
        raise NotHere("the stand-in has no allocator")
    with sharing(world, environment=NO_CACHING) as job:
        job.do("post", str(SMALL))
        job.until(lambda report: "items-lost" in topics(report), "the remark items-lost")
        return Seen("refused, and the remark says that the item is lost")


def counts(pid: int) -> list[Path]:
    """Files of counts that a producer made."""
    return [path for path in linked(pid) if path.stat().st_size == REFCOUNTER]


def topics(report: Report) -> set[str]:
    """The topics of all remarks."""
    return {row["topic"] for row in report["remarks"]}


def wait_for_end(pid: int) -> None:
    """When this returns it is a zombie or gone, or the time limit has passed."""
    deadline = time.monotonic() + SHORT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            if file.read().rpartition(b") ")[2][:1] not in b"ZX":
                time.sleep(0.05)
                continue
        return


TORCH: frozenset[Need] = frozenset({"memory", "torch"})
"""What all cases need."""

CASES: Sequence[Case] = (
    Case("ipc-life", "Exported CUDA memory has a size, a holder and a line, and is gone when dropped.", life,
         TORCH),
    Case("ipc-life-file-system", "The same if torch shares CPU tensors by name (file_system).",
         partial(life, strategy="file_system"), TORCH),
    Case("ipc-limbo-and-collect", "Memory that the producer drops first is in limbo, then uncollected, then free.", limbo,
         TORCH),
    Case("ipc-consumer-killed", "Memory of a killed consumer stays in use, and mpmon says so.", consumer_killed, TORCH),
    Case("ipc-producer-killed", "The file of counts outlives a killed producer.", producer_killed, TORCH),
    Case("ipc-end-spawn", "A spawned producer that ends regularly removes its file of counts.",
         partial(ended, method="spawn", stays=False), TORCH),
    Case("ipc-end-forkserver", "A fork server's child leaves its file of counts behind: it runs no destructors.",
         partial(ended, method="forkserver", stays=True), TORCH),
    Case("ipc-rebuilt-twice", "An export that is rebuilt twice is reported.", rebuilt_twice, TORCH),
    Case("ipc-expandable", "Memory of expandable segments arrives, or mpmon says why not.", expandable, TORCH),
    Case("ipc-without-cache", "Without its caching allocator torch shares no CUDA memory, and mpmon says what is lost.",
         without_cache, TORCH),
    Case("ipc-events", "More than a thousand live exports are reported as slow.", events, TORCH),
)  # fmt: skip
