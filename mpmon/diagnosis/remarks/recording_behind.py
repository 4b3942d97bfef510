"""Facts that mpmon reads are not written to its recording.

What it looks like: mpmon keeps watching, and the file of `--record` does not grow.
Why: its file system does not answer: the server of an NFS, SMB, Lustre or FUSE mount is down or overloaded, or the network to
it is cut.
What to do: check that server. mpmon keeps up to 64 MiB of unwritten data, and writes it when the server answers; anything
still unwritten when mpmon ends is lost. Where the evidence matters, record to a local disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "recording-behind"


def remarks(job: JobState) -> Iterator[Remark]:
    """One, as long as it lasts."""
    for row in job.snapshot.probes:
        if row.name == "recorder" and row.problem:
            yield Remark(
                topic=TOPIC, summary=f"the recording is not being written: {row.problem}",
                advice=("Check that server, or record to a local disk.",),
            )  # fmt: skip
