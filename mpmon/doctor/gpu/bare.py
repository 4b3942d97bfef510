"""CUDA memory between processes without the shim: mpmon shows the reference counts, and claims nothing more.

A count is 1 from the export until the receiver releases it. Only the shims of both sides know whether the memory has
arrived, who has it, and whether its producer keeps it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from mpmon.doctor.gpu.case import Case, NotHere, Seen, World
from mpmon.doctor.gpu.sharing import (
    BLOCK,
    EXPANDABLE,
    MANY,
    MANY_S,
    SMALL,
    TORCH,
    Sharing,
    counts,
    expect,
    sharing,
    topics,
    wait_for_end,
)
from mpmon.doctor.gpu.watching import Report
from mpmon.probes.ipc.storages import SLOTS

MORE, FILL_S = 20, 600.0
"""More exports than a file has counts, and how long they may take."""
CLAIMS = "ipc-"
"""Prefix of remarks about CUDA memory that processes share."""


def seen_and_no_more(job: Sharing, *sent: int) -> None:
    """This many exports with a count of 1 in each file, with nothing else known or remarked. Raises: Wrong."""
    expected = f"{' and '.join(map(str, sent)) or 'no'} exports, and nothing else known about them"
    report = job.until(lambda report: _rows(report) == list(map(_of, sent)), expected)
    expect("remarks:", of=[], seen=_claims(report))


def _rows(report: Report) -> list[tuple[object, ...]]:
    """The fullest file first."""
    rows = report["ipc_exports"]
    found = [
        (
            row["exports"],
            row["refcount"],
            row["state"],
            row["size_bytes"],
            row["consumers"],
            row["limbo"],
        )
        for row in rows
    ]
    return sorted(found, key=lambda row: row[0], reverse=True)


def _of(count: int) -> tuple[object, ...]:
    return (count, 1, "unknown", None, [], False)


def _claims(report: Report) -> list[str]:
    return sorted(topic for topic in topics(report) if topic.startswith(CLAIMS))


def counted(world: World, *, strategy: str = "file_descriptor") -> Seen:
    """Counts of 1 while the memory is held, then none."""
    with sharing(world, shim=False, strategy=strategy) as job:
        job.do("send", "3", str(SMALL))
        seen_and_no_more(job, 3)
        job.do("drop")
        seen_and_no_more(job)
        return Seen("three counts of 1, then none")


def file_system(world: World) -> Seen:
    """The same if torch shares CPU tensors by name."""
    return counted(world, strategy="file_system")


def limbo(world: World) -> Seen:
    """Memory that the producer dropped looks unchanged; released but uncollected memory disappears from view, and is
    not free.
    """
    with sharing(world, shim=False) as job:
        job.do("send", "1", str(BLOCK))
        job.do("forget")
        job.do("collect")
        seen_and_no_more(job, 1)
        job.do("drop")
        seen_and_no_more(job)
        before = job.do("idle")["allocated"]
        after = job.do("collect")["allocated"]
        expect(f"{BLOCK} bytes taken until they are collected:", of=(True, True), seen=(before >= BLOCK, after < BLOCK))
        return Seen("a count of 1, then none while its memory is still taken", {"freed_bytes": before - after})


def events(world: World) -> Seen:
    """With more than a thousand live exports, it is unknown which of them waited for the stream."""
    with sharing(world, shim=False) as job:
        job.do("send", str(MANY), str(SMALL), seconds=MANY_S)
        seen_and_no_more(job, MANY)
        return Seen(f"{MANY} counts of 1")


def second_file(world: World) -> Seen:
    """Every count of a file is used once; then another file follows."""
    with sharing(world, shim=False) as job:
        job.do("send", str(SLOTS + MORE), str(SMALL), seconds=FILL_S)
        seen_and_no_more(job, SLOTS, MORE)
        job.do("drop")
        seen_and_no_more(job)
        return Seen(f"{SLOTS} counts of 1 in one file and {MORE} in another, then none")


def consumer_killed(world: World) -> Seen:
    """A count left by a killed consumer stays 1; that a dead process holds it is unknown."""
    with sharing(world, shim=False) as job:
        job.do("send", "1", str(BLOCK))
        seen_and_no_more(job, 1)
        os.kill(job.consumer, signal.SIGKILL)
        wait_for_end(job.consumer)
        seen_and_no_more(job, 1)
        job.do("forget")
        after = job.do("collect")["allocated"]
        expect(f"{BLOCK} bytes that stay taken after ipc_collect:", of=True, seen=after >= BLOCK)
        seen_and_no_more(job, 1)
        return Seen("the count stays 1, and the memory stays taken")


def producer_killed(world: World) -> Seen:
    """A killed producer's counts are not judged; their file is reported as left by a dead process."""
    with sharing(world, shim=False) as job:
        job.do("send", "1", str(BLOCK))
        seen_and_no_more(job, 1)
        os.kill(job.producer, signal.SIGKILL)
        wait_for_end(job.producer)
        seen_and_no_more(job)
        if not world.computes:
            return Seen("its export is no longer judged; a manager removes the file of the stand-in")
        files = [str(path) for path in counts(job.producer)]
        expect("files left:", of=1, seen=len(files))
        job.until(lambda report: set(files) <= _orphans(report), "the file among those of dead processes")
        return Seen(
            "its export is no longer judged, and its file is reported as left by a dead process", {"files": len(files)}
        )


def _orphans(report: Report) -> set[str]:
    memory = report["shared_memory"]
    return {row["path"] for row in memory["orphans"]} if memory else set()


def expandable(world: World) -> Seen:
    """Memory of expandable segments has a count like any other, whether or not it arrives."""
    if not world.computes:
        raise NotHere("the stand-in has no segments")
    with sharing(world, shim=False, environment=EXPANDABLE) as job:
        refused = job.do("send", "1", str(BLOCK))["said"]
        seen_and_no_more(job, 1)
        job.do("drop")
        seen_and_no_more(job, *([1] if refused else []))
        return Seen("refused, and its count stays 1" if refused else "a count of 1, then none")


CASES: Sequence[Case] = (
    Case("ipc-without-shim", "Without the shim, mpmon shows the counts and claims no more.", counted, TORCH),
    Case("ipc-file-system-without-shim", "Without the shim, the same if torch shares CPU tensors by name.",
         file_system, TORCH),
    Case("ipc-limbo-without-shim", "Without the shim, memory in limbo has a count of 1, and no more is claimed.", limbo, TORCH),
    Case("ipc-events-without-shim", "Without the shim, more than a thousand exports are counted, and not called slow.",
         events, TORCH),
    Case("ipc-second-file-without-shim", "A producer opens a second file of counts when the first is used up; mpmon reads both.",
         second_file, TORCH),
    Case("ipc-consumer-killed-without-shim", "Without the shim, memory of a killed consumer keeps its count, and nobody "
         "is blamed.", consumer_killed, TORCH),
    Case("ipc-producer-killed-without-shim", "Without the shim, a killed producer's counts are not judged.",
         producer_killed, TORCH),
    Case("ipc-expandable-without-shim", "Without the shim, memory of expandable segments is counted like any other.",
         expandable, TORCH),
)  # fmt: skip
