"""Frames of C and C++ in the report."""

from __future__ import annotations

import json

import msgspec
import pytest

from mpmon.codec import decode_round, encode_round
from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Observation, Suspect, Verdict
from mpmon.model import Frame, LockUse, NativeFrame, NativeStack, Snapshot
from mpmon.reports import document, text
from tests.builders import ROOT, START, process, snapshot, stack

LIBRARY = "/opt/torch/lib/libtorch_cpu.so"


def native(name: str | None, library: str = LIBRARY, how: str = "frame information") -> NativeFrame:
    return NativeFrame(library=library, offset=0x1234, function=name, name=name, how=how)


LOOP = native("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.11.so.1.0")
FRAMES = (native("poll", "/lib/libc.so.6"), native("c10d::Work::wait"), LOOP, native("qsort", "/lib/libc.so.6"), LOOP)


def hung(
    *frames: NativeFrame, end: str = "start", why: str | None = None, entries: tuple[bool, ...] = (True, True)
) -> Observation:
    """A job whose main thread stands in `wait`, called by `main`."""
    first = snapshot(process(), stack("main", "job.py:3 wait", "job.py:9 main"))
    rows = tuple(msgspec.structs.replace(row, frames=tuple(map(entered, row.frames, entries))) for row in first.stacks)
    row = NativeStack(pid=ROOT, tid=ROOT, taken_at=START, frames=frames, end=end, why=why)
    job = msgspec.structs.replace(first, stacks=rows, native_stacks=(row,))
    suspect = Suspect(pid=ROOT, tid=ROOT, role="main")
    finding = Finding(cause="native-hang", certainty=Certainty.LIKELY, summary="Main waits", suspects=(suspect,))
    diagnosis = Diagnosis(verdict=Verdict.HUNG, findings=(finding,))
    return Observation(snapshot=job, diagnosis=diagnosis, watched_s=9.0)


def entered(frame: Frame, is_entry: bool) -> Frame:
    return msgspec.structs.replace(frame, is_entry=is_entry)


def shown(observation: Observation) -> list[str]:
    """The lines of the suspect's frames."""
    lines = text.render(observation).splitlines()
    begin = next(at for at, line in enumerate(lines) if "is stuck, in" in line)
    return [line.strip() for line in lines[begin + 1 : lines.index("", begin)]]


def test_both_stand_in_one_list_and_those_of_c_are_marked() -> None:
    assert shown(hung(*FRAMES)) == [
        "| poll (libc.so.6)",
        "| c10d::Work::wait (libtorch_cpu.so)",
        "wait (job.py:3)",
        "| qsort (libc.so.6)",
        "main (job.py:9)",
    ]


def test_a_frame_without_a_name_shows_its_place_and_a_guessed_one_says_so() -> None:
    lines = shown(hung(native(None, how="search"), native("f", how="search"), *FRAMES[1:]))
    assert lines[:2] == ["| libtorch_cpu.so+0x1234 (found by searching)", "| f (libtorch_cpu.so, found by searching)"]


def test_what_does_not_fit_together_is_shown_apart() -> None:
    lines = shown(hung(*FRAMES[:3]))
    assert lines[:2] == ["wait (job.py:3)", "main (job.py:9)"]
    assert lines[-1].startswith("(Python and C frames could not be merged")


def test_a_stack_that_is_not_whole_says_why() -> None:
    found = hung(native("poll"), end="lost", why="a register that is needed is not known", entries=(False, False))
    assert shown(found)[-1] == "(the C frames end here: a register that is needed is not known)"


def test_a_moment_of_a_thread_that_runs_says_so_and_is_no_guess() -> None:
    lines = shown(hung(native("poll_flag", how="sample"), *FRAMES[1:]))
    assert lines[0] == "| poll_flag (libtorch_cpu.so)"
    assert lines[-1] == "(the thread is running: its C frames are a single sample)"


def test_without_frames_of_c_those_of_python_are_shown() -> None:
    assert shown(hung(end="running")) == ["wait (job.py:3)", "main (job.py:9)"]


def test_what_the_c_library_alone_does_is_told_by_the_system_call() -> None:
    sleep = native("clock_nanosleep", "/lib/libc.so.6"), native("time_sleep", "/usr/bin/python3.11"), LOOP, LOOP
    assert shown(hung(*sleep)) == ["wait (job.py:3)", "main (job.py:9)"]


def test_a_frame_keeps_the_note_of_its_lock() -> None:
    found = hung(*FRAMES)
    use = LockUse(pid=ROOT, tid=ROOT, object="thread-lock:1:0x7f", kind="Lock", function="main", depth=0, holds=True)
    job = msgspec.structs.replace(found.snapshot, locks=(use,))
    lines = shown(msgspec.structs.replace(found, snapshot=job))
    assert lines[-2:] == ["main (job.py:9)", "- holding Lock 0x7f"]


def test_the_document_has_all_frames() -> None:
    row = json.loads(document.render(hung(*FRAMES)))["native_stacks"][0]
    assert (row["pid"], row["tid"], row["end"], row["agrees"]) == (ROOT, ROOT, "start", True)
    assert [frame["function"] for frame in row["frames"]] == ["poll", "c10d::Work::wait", "wait", "qsort", "main"]
    assert [frame["language"] for frame in row["frames"]] == ["native", "native", "python", "native", "python"]
    assert row["frames"][1]["library"] == LIBRARY


@pytest.mark.parametrize("count", [5, 200])
def test_a_long_list_is_cut(count: int) -> None:
    lines = shown(hung(*[native(f"f{number}") for number in range(count)], entries=(False, False)))
    assert len(lines) <= text.MOST_MERGED + 2
    assert any("more" in line for line in lines) == (count > text.MOST_MERGED)


def test_a_recording_keeps_them() -> None:
    job = hung(*FRAMES).snapshot
    again: Snapshot = decode_round(encode_round(job, None), None)
    assert again.native_stacks == job.native_stacks
