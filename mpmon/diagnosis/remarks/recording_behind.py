"""What mpmon sees does not get into its recording.

What it looks like: the watch goes on, and the file of `--record` does not grow.
Why: the file system that it lies on does not answer: the server of an NFS, SMB, Lustre or FUSE mount has died, is overloaded,
or the network to it is cut.
What to do: look after that server. mpmon keeps what it could not write, up to 64 MiB, and writes it when the server answers;
what it still has when it ends is lost. Record on a disk of this machine where the evidence matters.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.findings import Remark

TOPIC = "recording-behind"


def remarks(case: Case) -> Iterator[Remark]:
    """One, as long as it lasts."""
    for row in case.snapshot.probes:
        if row.name == "recorder" and row.problem:
            yield Remark(
                topic=TOPIC, summary=f"the recording is not being written: {row.problem}",
                advice=("Look after that server, or record on a disk of this machine.",),
            )  # fmt: skip
