"""A recording that ends before its job does says so, once, where its last picture is shown; one that is not written, at once."""

from __future__ import annotations

import msgspec

from mpmon.diagnosis import EventLog
from mpmon.diagnosis.remarks import recording_behind, recording_cut
from mpmon.model import ProbeReport, Snapshot
from tests.builders import diagnosed, history, process, snapshot

WHY = "its file ends in the middle"


def rounds() -> list[Snapshot]:
    found = [snapshot(process(), at=float(second)) for second in range(4)]
    report = ProbeReport(name="recording", ok=False, seconds=0.0, problem=WHY)
    return [*found[:-1], msgspec.structs.replace(found[-1], probes=(report,))]


def test_the_last_picture_says_it() -> None:
    (remark,) = diagnosed(rounds()).remarks
    assert (remark.topic, remark.summary) == (recording_cut.TOPIC, f"the recording ends here, but {WHY}")
    assert diagnosed(rounds()[:-1]).remarks == ()


def test_one_that_is_not_written() -> None:
    report = ProbeReport(name="recorder", ok=False, seconds=0.0, problem="its server is gone")
    (remark,) = diagnosed([msgspec.structs.replace(rounds()[0], probes=(report,))]).remarks
    assert (remark.topic, remark.summary) == (
        recording_behind.TOPIC, "the recording is not being written: its server is gone",
    )  # fmt: skip


def test_it_is_told_as_an_event() -> None:
    told, seen = EventLog(), history()
    for each in rounds():
        seen = seen.add(each)
        told = told.add(each, diagnosed(rounds()[: seen.rounds]))
    assert [event.summary for event in told.log if event.kind == "remark-began"] == [
        f"the recording ends here, but {WHY}"
    ]
