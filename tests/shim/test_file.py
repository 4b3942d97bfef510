"""The reader against files that no shim ever wrote."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.probes.door import Place
from mpmon.probes.shim.file import BadFile, Owner, ShimFile
from mpmon.shim import layout
from mpmon.shim.places import RECORDS, Name
from tests.shim.running import Job, files, look, run

REGIONS = (layout.QUEUES, layout.TEXTS, layout.EXPORTS, layout.IMPORTS)


@functools.cache
def real_file() -> tuple[str, bytes]:
    """Name and content of a file that a job wrote."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        run("items.py", "fork", folder=folder)
        path = max(Path(folder).iterdir())
        assert files(Path(folder))
        return path.name, path.read_bytes()


def read(folder: Path, content: bytes, name: str | None = None) -> ShimFile:
    """What the reader makes of some bytes."""
    file_name = name or real_file()[0]
    path = folder / file_name
    path.write_bytes(content)
    parsed = Name.parse(file_name, RECORDS)
    assert parsed is not None
    file = ShimFile(Place(str(path)), parsed, Owner(parsed.pid, (os.geteuid(),), 1e9))
    try:
        file.read()
        file.read()
    finally:
        file.close()
    return file


def fit_for_a_report(file: ShimFile) -> bool:
    """Rows that can be written down, with texts that do not steer a terminal."""
    encoded = msgspec.json.encode([*file.queues, *file.exports, *file.imports])
    return encoded.decode().isprintable()


def test_a_real_file(tmp_path: Path) -> None:
    file = read(tmp_path, real_file()[1])
    assert len(file.queues) == 3
    assert fit_for_a_report(file)


PLACES = st.one_of(
    st.integers(0, layout.HEADER_WORDS * 8 - 1), *(st.integers(r.start, r.start + 4 * r.record_bytes) for r in REGIONS)
)


@given(st.dictionaries(PLACES, st.integers(0, 255), min_size=1, max_size=60))
def test_a_damaged_file(tmp_path_factory: pytest.TempPathFactory, damage: dict[int, int]) -> None:
    content = bytearray(real_file()[1])
    for at, byte in damage.items():
        content[at] = byte
    with contextlib.suppress(BadFile):
        assert fit_for_a_report(read(tmp_path_factory.getbasetemp(), bytes(content)))


WORDS = st.integers(0, 2**64 - 1)


@given(st.lists(WORDS, min_size=14, max_size=14), st.lists(st.lists(WORDS, min_size=4, max_size=4), max_size=5))
def test_records_of_any_numbers_under_seals_that_fit(
    tmp_path_factory: pytest.TempPathFactory, queue: list[int], transfers: list[list[int]]
) -> None:
    content = bytearray(real_file()[1])
    words = memoryview(content).cast("Q")
    start = layout.QUEUES.start // 8
    words[start + 1 : start + 15] = memoryview(b"".join(n.to_bytes(8, "little") for n in queue)).cast("Q")
    words[start] = layout.seal(words[start + 1 : start + 3])
    for region in (layout.EXPORTS, layout.IMPORTS):
        words[region.used_at], words[region.generation_at] = len(transfers), 1
        for number, transfer in enumerate(transfers):
            at = region.start // 8 + number * region.record_words
            for offset, word in enumerate((*transfer, layout.seal(transfer))):
                words[at + offset] = word
    file = read(tmp_path_factory.getbasetemp(), bytes(content))
    assert len(file.exports) == len(file.imports) == len(transfers)
    assert fit_for_a_report(file)


@given(st.binary(max_size=2000))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    with pytest.raises(BadFile):
        read(tmp_path_factory.getbasetemp(), content or b"\1")


@pytest.mark.parametrize("length", [0, 100, 512, 4000, 70000])
def test_a_cut_file(length: int, tmp_path: Path) -> None:
    content = real_file()[1][:length]
    if length < layout.HEADER_WORDS * layout.WORD:
        with pytest.raises(BadFile, match="cut"):
            read(tmp_path, content)
    else:
        assert fit_for_a_report(read(tmp_path, content))


def test_a_file_that_is_just_being_made(tmp_path: Path) -> None:
    file = read(tmp_path, bytes(layout.SIZE))
    assert file.queues == ()


def test_a_file_of_another_process(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="different process"):
        read(tmp_path, real_file()[1], "1.2.3.mpmon")


def test_a_file_of_another_version(tmp_path: Path) -> None:
    content = bytearray(real_file()[1])
    content[0] ^= 1
    with pytest.raises(BadFile, match="version"):
        read(tmp_path, bytes(content))


def test_a_text_that_would_steer_a_terminal(tmp_path: Path) -> None:
    content = bytearray(real_file()[1])
    evil = b"\x1b]0;pwned\x07job.py:1 in main"
    first = layout.TEXTS.start + layout.TEXTS.record_bytes
    for at in range(first, first + 20 * layout.TEXTS.record_bytes, layout.TEXTS.record_bytes):
        content[at : at + 8] = layout.text_seal(evil).to_bytes(8, "little")
        content[at + 8 : at + 8 + len(evil)] = evil
    sites = {row.put_site for row in read(tmp_path, bytes(content)).queues if row.put_site}
    assert sites == {"\ufffd]0;pwned\ufffdjob.py:1 in main"}


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "link"])
def test_what_is_no_file(kind: str, tmp_path: Path) -> None:
    name = real_file()[0]
    path = tmp_path / name
    parsed = Name.parse(name, RECORDS)
    assert parsed is not None
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    else:
        here = os.open(tmp_path, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"/proc/self/fd/{here}/{name}")
        os.close(here)
    with pytest.raises((BadFile, OSError)):
        ShimFile(Place(str(path)), parsed, Owner(parsed.pid, (os.geteuid(),), 1e9)).read()


def test_a_damaged_file_of_a_living_process_is_a_fact_and_no_failure(tmp_path: Path) -> None:
    with Job("blocked.py", folder=tmp_path) as job, look(job.pid) as looking:
        job.hear()
        job.hear()
        whole = looking.round()
        assert {row.pid for row in whole.queue_records} >= {job.pid}
        (path,) = tmp_path.glob(f"{job.pid}.*")
        with path.open("r+b") as file:
            file.seek(layout.PID * layout.WORD)
            file.write(b"\xff" * 8)
        snapshot = looking.round()
    assert job.pid not in {row.pid for row in snapshot.queue_records}
    assert [(row.pid, row.table) for row in snapshot.unknowns] == [(job.pid, "queue_records")]
    assert "damaged" in snapshot.unknowns[0].reason
    assert [(report.name, report.ok) for report in snapshot.probes] == [("shim", False)]
