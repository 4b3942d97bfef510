"""CUDA memory between processes that have no shim: the counts are seen, and nothing is claimed that they do not say.

A count is 1 from the sending until the receiver lets go: whether what was sent has arrived, who has it, and whether its
producer keeps it, only the shims of both sides know.
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
"""Sendings than there are counts in one file, and how long they may take."""
CLAIMS = "ipc-"
"""Remarks about CUDA memory that processes share."""


def seen_and_no_more(job: Sharing, *sent: int) -> None:
    """So many sendings with a count of 1 in each file, of which nothing else is known or remarked. Raises: Wrong."""
    expected = f"{' and '.join(map(str, sent)) or 'no'} sendings of which nothing else is known"
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
    """Counts of 1 while they are held, then none."""
    with sharing(world, shim=False, strategy=strategy) as job:
        job.do("send", "3", str(SMALL))
        seen_and_no_more(job, 3)
        job.do("drop")
        seen_and_no_more(job)
        return Seen("three counts of 1, then none")


def file_system(world: World) -> Seen:
    """The same where torch shares CPU tensors by name."""
    return counted(world, strategy="file_system")


def limbo(world: World) -> Seen:
    """What the producer dropped looks as before; what is released and not collected is seen no more, and is not free."""
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
    """Beyond a thousand sendings that live, which of them waited for the stream is not known."""
    with sharing(world, shim=False) as job:
        job.do("send", str(MANY), str(SMALL), seconds=MANY_S)
        seen_and_no_more(job, MANY)
        return Seen(f"{MANY} counts of 1")


def second_file(world: World) -> Seen:
    """Every count of a file is used once; then there is another file."""
    with sharing(world, shim=False) as job:
        job.do("send", str(SLOTS + MORE), str(SMALL), seconds=FILL_S)
        seen_and_no_more(job, SLOTS, MORE)
        job.do("drop")
        seen_and_no_more(job)
        return Seen(f"{SLOTS} counts of 1 in one file and {MORE} in another, then none")


def consumer_killed(world: World) -> Seen:
    """A count that a killed consumer leaves stays 1; that the dead hold it is not known."""
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
    """The counts of a killed producer are not judged; their file is told as left by the dead."""
    with sharing(world, shim=False) as job:
        job.do("send", "1", str(BLOCK))
        seen_and_no_more(job, 1)
        os.kill(job.producer, signal.SIGKILL)
        wait_for_end(job.producer)
        seen_and_no_more(job)
        if not world.computes:
            return Seen("its sending is no longer judged; a manager removes the file of the stand-in")
        files = [str(path) for path in counts(job.producer)]
        expect("files left:", of=1, seen=len(files))
        job.until(lambda report: set(files) <= _orphans(report), "the file among those of dead processes")
        return Seen("its sending is no longer judged, and its file is told as left by the dead", {"files": len(files)})


def _orphans(report: Report) -> set[str]:
    memory = report["shared_memory"]
    return {row["path"] for row in memory["orphans"]} if memory else set()


def expandable(world: World) -> Seen:
    """Memory of expandable segments has a count as any other, whether it arrives or not."""
    if not world.computes:
        raise NotHere("the stand-in has no segments")
    with sharing(world, shim=False, environment=EXPANDABLE) as job:
        refused = job.do("send", "1", str(BLOCK))["said"]
        seen_and_no_more(job, 1)
        job.do("drop")
        seen_and_no_more(job, *([1] if refused else []))
        return Seen("refused, and its count stays 1" if refused else "a count of 1, then none")


CASES: Sequence[Case] = (
    Case("ipc-without-shim", "Without the shim the counts are seen, and no more is claimed.", counted, TORCH),
    Case("ipc-file-system-without-shim", "Without the shim it is the same where torch shares CPU tensors by name.",
         file_system, TORCH),
    Case("ipc-limbo-without-shim", "Without the shim memory in limbo has a count of 1, and no more is claimed.", limbo, TORCH),
    Case("ipc-events-without-shim", "Without the shim more than a thousand sendings are counted, and not told as slow.",
         events, TORCH),
    Case("ipc-second-file-without-shim", "A producer has a second file of counts once the first is used up, and both are read.",
         second_file, TORCH),
    Case("ipc-consumer-killed-without-shim", "Without the shim what a killed consumer had keeps its count, and nobody is "
         "blamed.", consumer_killed, TORCH),
    Case("ipc-producer-killed-without-shim", "Without the shim the counts of a killed producer are not judged.",
         producer_killed, TORCH),
    Case("ipc-expandable-without-shim", "Without the shim memory of expandable segments is counted as any other.",
         expandable, TORCH),
)  # fmt: skip
