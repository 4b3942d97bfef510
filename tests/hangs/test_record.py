"""Recorded cases are small, name no machine, and come out the same from the same facts."""

from __future__ import annotations

import ast
import gzip
import re
from pathlib import Path

import msgspec
import pytest

from mpmon.session.recording import read_recording
from tests.hangs.expected import Expected, cases, read_expected, to_toml
from tests.hangs.record import Case, anonymous, marked_lines

PROGRAMS = [case for case in cases() if (case / "job.py").exists()]

LARGEST = 250_000
"""Bytes of one recording; four ranks with their loaders take that in 25 rounds in which all are looked at."""

NAMES = {"/opt/venv": "/usr", "/opt/venv-2/x": "/usr", "/tmp/jabc": "/home/user", "box-17": "host"}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (b'"/opt/venv/lib/python3.11/site-packages/a.py"', b'"/usr/lib/python3.11/site-packages/a.py"'),
        (b'"/opt/venv-2/x/b.py"', b'"/usr/b.py"'),
        (b'"/tmp/jabc/job/job.py","/tmp/jabcd/job.py"', b'"/home/user/job/job.py","/tmp/jabcd/job.py"'),
        (b'"tcp box-17:80","box-177"', b'"tcp host:80","box-177"'),
    ],
)
def test_names_are_replaced_whole_and_the_longest_first(text: bytes, clean: bytes) -> None:
    assert anonymous(text, NAMES) == clean


def test_the_truth_comes_back(tmp_path: Path) -> None:
    truth = Expected(
        title='a "quoted" one', verdict="hung", causes=("stopped", "worker-stuck"), suspects=(7, 8), dead=(8,),
        every_suspect=True, lines={"job.py": (3, 4)}, roles={"7": "main"},
    )  # fmt: skip
    (tmp_path / "expected.toml").write_text(to_toml(truth))
    assert read_expected(tmp_path) == truth


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_recorded_case_is_small_and_complete(case: Path) -> None:
    packed = (case / "recording.jsonl.gz").read_bytes()
    expected = read_expected(case)
    assert len(packed) < LARGEST
    assert packed[4:8] == bytes(4), "the time of packing must not be in it"
    assert gzip.decompress(packed).endswith(b"\n")
    last = list(read_recording(case / "recording.jsonl.gz"))[-1]
    assert last.host == "host"
    known = {row.pid for row in last.processes} | {row.pid for row in last.exits} | set(expected.dead)
    assert set(expected.suspects) <= known
    assert expected.hangs == bool(expected.suspects)


RECORDINGS = sorted(Path(__file__).parents[1].glob("**/*.jsonl.gz"))

COMMON = re.compile(rb"/(?:usr|bin/sh|dev|proc|home/user|tmp|job)(?![\w-])|/$")
"""Where paths of a recording begin, on whichever machine it was made."""


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_recording_names_no_folder_and_no_control_group_of_a_machine(recording: Path) -> None:
    found = set(re.findall(rb'"(/[^"\\ ]*)', gzip.decompress(recording.read_bytes())))
    assert found
    assert {path for path in found if not COMMON.match(path)} == set()


def test_the_truth_has_no_field_that_nobody_reads(tmp_path: Path) -> None:
    (tmp_path / "expected.toml").write_text('title = "x"\nverdict = "hung"\nsurprise = 1\n')
    with pytest.raises(msgspec.ValidationError, match="surprise"):
        read_expected(tmp_path)


# The programs beside the recordings


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_what_is_said_of_a_program_is_said_of_its_recording(case: Path) -> None:
    said = msgspec.toml.decode((case / "case.toml").read_bytes(), type=Case)
    expected = read_expected(case)
    assert (said.id, said.title, said.verdict) == (case.name, expected.title, expected.verdict)
    assert expected.causes == ((said.cause, *said.also_ok) if expected.hangs else ())


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_a_recording_is_of_the_program_beside_it(case: Path) -> None:
    """Its culprits stand on the marked lines, and each of its frames in the function that has the line."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in case.glob("*.py")}
    marked = {name: lines for name, text in texts.items() if (lines := marked_lines(text))}
    expected = read_expected(case)
    assert expected.lines == (marked if expected.hangs else {})
    trees = {f"/home/user/job/{name}": ast.parse(text) for name, text in texts.items()}
    stacks = (stack for snapshot in read_recording(case / "recording.jsonl.gz") for stack in snapshot.stacks)
    frames = (frame for stack in stacks for frame in stack.frames if frame.file.startswith("/home/user/job/"))
    own = {(frame.file, frame.line, frame.function.rpartition(".")[2]) for frame in frames}
    assert [place for place in sorted(own) if place[2] not in _around(trees[place[0]], place[1])] == []


def _around(tree: ast.Module, line: int) -> set[str]:
    """The functions that have the line, as Python names them."""
    names = {
        ast.Lambda: "<lambda>",
        ast.ListComp: "<listcomp>",
        ast.GeneratorExp: "<genexpr>",
        ast.DictComp: "<dictcomp>",
    }
    found = {"<module>"}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found.add(getattr(node, "name", names.get(type(node), "")))
    return found
