"""Tasks of event loops in a report, on the screen, and in the document."""

from __future__ import annotations

import json

import msgspec

from mpmon.codec import decode_round, encode_round
from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Observation, Suspect, Verdict
from mpmon.model import Unknown
from mpmon.reports import document, text
from mpmon.tui.describe.stack import thread_lines
from mpmon.tui.line import text_of
from mpmon.tui.scene import Scene
from tests.builders import ROOT, process, snapshot, stack
from tests.diagnosis.test_loops import ABBA, BEATS, LOOP

TOLD = [
    "main awaits other tasks: a and b at job.py:7 in main()",
    "a awaits a lock (held by b) at job.py:21 in a()",
    "b awaits a lock (held by a) at job.py:22 in b()",
    "beats sleeps at job.py:7 in beats()",
]


def hung() -> Observation:
    """A job whose main thread rests in an event loop with two tasks that wait for each other."""
    job = snapshot(process(), stack("main", *LOOP), *ABBA, BEATS)
    suspect = Suspect(pid=ROOT, tid=ROOT, role="main", thread="MainThread")
    finding = Finding(cause="self-deadlock", certainty=Certainty.LIKELY, summary="Main waits", suspects=(suspect,))
    diagnosis = Diagnosis(verdict=Verdict.HUNG, findings=(finding,))
    return Observation(snapshot=job, diagnosis=diagnosis, watched_s=9.0)


def on_screen(observation: Observation) -> list[str]:
    return [text_of(line).strip() for line in thread_lines(Scene(observation), ROOT, ROOT, 100)]


def test_the_report_tells_the_tasks_of_a_suspect() -> None:
    lines = [line.strip() for line in text.render(hung()).splitlines()]
    begin = lines.index("tasks of the event loop in MainThread:")
    assert lines[begin + 1 : begin + 1 + len(TOLD)] == TOLD


def test_the_stack_panel_tells_them_below_the_stack() -> None:
    lines = on_screen(hung())
    assert lines[lines.index("tasks of its event loop") + 1 :] == TOLD


def test_why_they_are_not_known_is_told_on_the_screen() -> None:
    found = hung()
    unread = Unknown(table="tasks", pid=ROOT, reason="its event loop kept running while its tasks were read")
    job = msgspec.structs.replace(found.snapshot, tasks=(), unknowns=(unread,))
    assert on_screen(msgspec.structs.replace(found, snapshot=job))[-1] == (
        "tasks of its event loop: its event loop kept running while its tasks were read"
    )


def test_the_document_has_them() -> None:
    rows = json.loads(document.render(hung()))["tasks"]
    assert [row["name"] for row in rows] == ["main", "a", "b", "beats"]
    assert rows[1]["waits"] == "lock"
    assert rows[1]["waits_on"] in rows[2]["holds"]
    assert rows[0]["tasks"] == [rows[1]["id"], rows[2]["id"]]
    assert [frame["line"] for frame in rows[1]["frames"]] == [212, 21]


def test_a_recording_keeps_them() -> None:
    job = hung().snapshot
    assert decode_round(encode_round(job, None), None).tasks == job.tasks
