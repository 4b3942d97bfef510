"""The recording ends here, but the job did not: its file was cut.

What it looks like: the last picture of a recording, in which nothing has come to an end.
Why: mpmon was killed or still writes, the disk was full, the file was copied in part.
What to do: for what came later, copy the file again or make another recording.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.findings import Remark

TOPIC = "recording-cut"


def remarks(case: Case) -> Iterator[Remark]:
    """One, in the last round of such a recording."""
    for row in case.snapshot.probes:
        if row.name == "recording" and row.problem:
            yield Remark(
                topic=TOPIC, summary=f"the recording ends here, but {row.problem}",
                advice=("What came later is not in it: copy the file again, or record again.",),
            )  # fmt: skip
