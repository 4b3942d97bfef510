"""A recording survives being cut, refuses to overwrite, and says what is wrong with a file in one sentence."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpmon.codec import RECORDING_SCHEMA
from mpmon.errors import MpmonError, UsageError
from mpmon.model import Snapshot
from mpmon.session.recording import CUT, FOLLOWED, Recorder, count_rounds, read_recording
from mpmon.session.watch import ReplayWatch
from tests.builders import after, process, snapshot, stack

settings.register_profile("files", suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
FILES = settings.get_profile("files")

MOMENTS = 5


def rounds() -> list[Snapshot]:
    """Some rounds of which some tables stay the same."""
    found = [snapshot(process(), process(4121, parent=4100), stack("main", "job.py:88 __getitem__", pid=4121))]
    for number in range(1, MOMENTS):
        found.append(after(found[-1], 1.0, ran=[4100] if number % 2 else []))
    return found


def recorded(path: Path) -> bytes:
    with Recorder(path) as recorder:
        for each in rounds():
            recorder.write(each)
    return path.read_bytes()


def moments(path: Path) -> list[float]:
    return [row.taken_at for row in read_recording(path)]


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_all_rounds_come_back(tmp_path: Path, name: str) -> None:
    recorded(tmp_path / name)
    again = list(read_recording(tmp_path / name))
    assert [row.taken_at for row in again] == [row.taken_at for row in rounds()]
    assert [row.threads for row in again] == [row.threads for row in rounds()]
    assert again[1].stacks is again[0].stacks


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_the_same_rounds_make_the_same_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert recorded(tmp_path / "a" / name) == recorded(tmp_path / "b" / name)


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_each_round_can_be_read_before_the_file_is_closed(tmp_path: Path, name: str) -> None:
    with Recorder(tmp_path / name) as recorder:
        for count, each in enumerate(rounds(), 1):
            recorder.write(each)
            assert len(moments(tmp_path / name)) == count


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_a_cut_recording_gives_the_rounds_that_were_complete(tmp_path: Path, name: str) -> None:
    whole = recorded(tmp_path / name)
    all_moments = moments(tmp_path / name)
    cut = tmp_path / f"cut-{name}"
    most = 0
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        try:
            found = moments(cut)
        except UsageError:
            assert most == 0, f"{length} bytes, after {most} rounds could be read"
            continue
        assert found == all_moments[: len(found)]
        assert len(found) >= most
        most = len(found)
        complete = _complete_lines(whole[:length])
        assert len(found) >= complete - 1
    assert most == MOMENTS


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_the_last_round_of_a_cut_recording_says_so(tmp_path: Path, name: str) -> None:
    whole = recorded(tmp_path / name)
    cut = tmp_path / f"cut-{name}"
    cut.write_bytes(whole[:-12])
    *others, last = read_recording(cut)
    assert [(row.name, row.ok, row.problem) for row in last.probes] == [("recording", False, CUT)]
    assert others
    assert not any(row.probes for row in (*others, *read_recording(tmp_path / name)))
    (remark,) = [row for observation in ReplayWatch(cut, at_once=True) for row in observation.diagnosis.remarks]
    assert remark.summary == f"the recording ends here, but {CUT}"


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
@pytest.mark.parametrize("more", [b"\n", b"\r\n\n", bytes(512)])
def test_blank_lines_and_padding_at_the_end_are_nothing(tmp_path: Path, name: str, more: bytes) -> None:
    whole = recorded(tmp_path / name)
    (tmp_path / "padded").write_bytes(whole + more)
    *_, last = read_recording(tmp_path / "padded")
    assert moments(tmp_path / "padded") == moments(tmp_path / name)
    assert not last.probes


@pytest.mark.parametrize("more", [b"x", b"garbage\n", b"\x1f"])
def test_what_follows_a_packed_recording_is_told_and_not_read(tmp_path: Path, more: bytes) -> None:
    whole = recorded(tmp_path / "hang.jsonl.gz")
    (tmp_path / "longer").write_bytes(whole + more)
    *_, last = read_recording(tmp_path / "longer")
    assert moments(tmp_path / "longer") == moments(tmp_path / "hang.jsonl.gz")
    assert [row.problem for row in last.probes] == [FOLLOWED]


def test_a_recording_packed_in_parts(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "hang.jsonl")
    parts = [whole[at : at + 100] for at in range(0, len(whole), 100)]
    (tmp_path / "parts").write_bytes(b"".join(map(gzip.compress, parts)))
    assert moments(tmp_path / "parts") == moments(tmp_path / "hang.jsonl")


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_one_that_ends_in_its_first_round(tmp_path: Path, name: str) -> None:
    whole = recorded(tmp_path / name)
    header = whole.index(b"\n") + 20 if name.endswith("l") else 160
    (tmp_path / "short").write_bytes(whole[:header])
    with pytest.raises(UsageError, match=r"has no whole round: its file ends in the middle") as caught:
        list(read_recording(tmp_path / "short"))
    assert "Copy it again" in caught.value.remedy


def test_one_whose_packing_is_damaged(tmp_path: Path) -> None:
    whole = bytearray(recorded(tmp_path / "hang.jsonl.gz"))
    whole[-8:-4] = b"sums"
    (tmp_path / "damaged").write_bytes(whole)
    with pytest.raises(UsageError, match="its gzip data is damaged"):
        list(read_recording(tmp_path / "damaged"))


def test_how_long_a_cut_recording_is(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "hang.jsonl.gz")
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[:-12])
    assert count_rounds(tmp_path / "cut.jsonl.gz") == MOMENTS


@settings(FILES, max_examples=300)
@given(data=st.data())
@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_a_garbled_recording_gives_rounds_or_one_sentence(tmp_path: Path, name: str, data: st.DataObject) -> None:
    path = tmp_path / name
    whole = bytearray(path.read_bytes() if path.exists() else recorded(path))
    places = data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4))
    for place in places:
        whole[place] = data.draw(st.integers(0, 255))
    garbled = tmp_path / f"garbled-{name}"
    garbled.write_bytes(whole)
    with contextlib.suppress(UsageError):
        assert all(isinstance(row, Snapshot) for row in read_recording(garbled))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a recording of mpmon"),
        (b"hello\n", "is not a recording of mpmon"),
        (b'{"a": 1}\n', "is not a recording of mpmon"),
        (random.Random(1).randbytes(2000), "is not a recording of mpmon"),
        (b"\x1f\x8b\x08\x00 cut", "is not a recording of mpmon"),
        (b"\x1f\x8bno gzip at all", "cannot be read"),
        (b'{"schema":"mpmon.recording/9","mpmon":"9","started_at":1.0}\n', "has the format mpmon.recording/9"),
        (f'{{"schema":"{RECORDING_SCHEMA}","mpmon":"1","started_at":1.0}}\nnot json\n{{}}\n'.encode(), "is damaged"),
    ],
    ids=["empty", "text", "other-json", "random", "cut-gzip", "bad-gzip", "later-format", "damaged"],
)
def test_a_file_of_another_kind_is_told_in_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words) as caught:
        list(read_recording(path))
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        list(read_recording(tmp_path / "nothing"))


def test_a_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        list(read_recording(tmp_path))


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        Recorder(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_a_recording_is_its_owners_only(tmp_path: Path, name: str) -> None:
    before = os.umask(0)
    try:
        recorded(tmp_path / name)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="exists already"):
        Recorder(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        Recorder(tmp_path / "no" / "folder" / "hang.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("name", ["hang.jsonl", "hang.jsonl.gz"])
def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path, name: str) -> None:
    recorder = Recorder(tmp_path / name)
    recorder.write(rounds()[0])
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, recorder._raw.fileno())
    os.close(full)
    with pytest.raises(MpmonError, match="No space left") as caught:
        recorder.write(rounds()[1])
    assert caught.value.remedy
    recorder.close()


def _complete_lines(text: bytes) -> int:
    """Rounds whose line is complete, as a plain reader sees them."""
    try:
        plain = gzip.GzipFile(fileobj=io.BytesIO(text)).read() if text[:2] == b"\x1f\x8b" else text
    except (EOFError, OSError):
        return 0
    return max(0, plain.count(b"\n") - 1)
