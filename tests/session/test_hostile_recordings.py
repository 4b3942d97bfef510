"""A recording may come from anywhere: whatever is in it ends in pictures or in one sentence, never in a defect."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mpmon.errors import MpmonError, UsageError
from mpmon.reports import document, plain, text
from mpmon.session import recording
from mpmon.session.recording import Recorder, count_rounds, read_recording
from mpmon.session.watch import ReplayWatch
from tests.builders import ROOT, gpu, snapshot
from tests.diagnosis.ipc_jobs import CONSUMER, consumer, got, producer, refcounter, sent, shim
from tests.hangs.expected import HOME, cases
from tests.probes.test_door import LEASES, Openings, lives_on
from tests.session.hanging import record
from tests.sleepers import sleeper
from tests.test_cli import ENVIRONMENT, HUNG, mpmon, one_sentence

Json = Any
Path_ = tuple[str | int, ...]


def real(case: str = "dl-getitem-sleep") -> list[Json]:
    """The header and the rounds of a recorded job."""
    return [
        json.loads(line) for line in gzip.decompress((HOME / case / "recording.jsonl.gz").read_bytes()).splitlines()
    ]


def written(path: Path, lines: list[Json]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def shown(path: Path) -> int:
    """All that is told of it without a screen; how many pictures there were."""
    observation = None
    for observation in ReplayWatch(path, at_once=True):
        plain.lines(observation)
        document.render(observation)
    assert observation is not None
    text.render(observation)
    text.render(observation, ascii_only=True)
    return observation.number


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as told:
        shown(path)
    assert "\n" not in str(told.value)
    return f"{told.value} {told.value.remedy}"


# What is no file


def test_what_is_no_file_is_told_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "socket"))
        for path, kind in (
            (tmp_path, "a folder"),
            (tmp_path / "fifo", "a named pipe"),
            (tmp_path / "link", "a named pipe"),
            (tmp_path / "socket", "a socket"),
            (Path("/dev/null"), "a device"),
            (Path("/dev/zero"), "a device"),
        ):
            assert f"{path} cannot be read: it is {kind}, not a regular file. Give the path" in refusal(path)
            with pytest.raises(UsageError):
                count_rounds(path)


def test_what_is_no_file_is_not_even_opened(tmp_path: Path) -> None:
    """Opening alone may do something: from then on /dev/watchdog wants to hear from us."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    openings = Openings(tmp_path / "fifo")
    refusal(tmp_path / "link")
    assert not openings.there_were()


def test_a_lease_on_a_recording_is_not_broken(tmp_path: Path) -> None:
    path = record(tmp_path / "hang.jsonl")
    with sleeper(LEASES, arguments=[str(path)]) as child:
        assert "has a lease of another process on it" in refusal(path)
        assert lives_on(child)


@pytest.mark.parametrize("packed", [True, False])
def test_a_recording_comes_through_a_pipe(tmp_path: Path, packed: bool) -> None:
    content = Path(HUNG).read_bytes()
    command = [sys.executable, "-m", "mpmon", "--replay", "/dev/stdin", "--once"]
    report = subprocess.run(
        command,
        input=content if packed else gzip.decompress(content),
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert report.returncode == 3
    assert report.stdout == mpmon("--replay", HUNG, "--once", text=False).stdout


def test_a_pipe_is_read_by_one_only(tmp_path: Path) -> None:
    """The one who counts the rounds would take them from the one who shows them."""
    reads, writes = os.pipe()
    with os.fdopen(reads), os.fdopen(writes, "wb") as pipe:
        watch_file = record(tmp_path / "hang.jsonl")
        writer = threading.Thread(target=lambda: (pipe.write(watch_file.read_bytes()), pipe.close()))
        writer.start()
        path = Path(f"/dev/fd/{reads}")
        found = read_recording(path)
        with pytest.raises(UsageError, match="not a regular file"):
            count_rounds(path)
        assert len(list(found)) == count_rounds(watch_file)
        writer.join()


# Lines


def test_many_rows_in_few_bytes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty row takes hundreds of times the memory of its three bytes."""
    monkeypatch.setattr(recording, "MOST_ROWS", 10_000)
    header, *rounds = real()
    rounds[1]["figures"] = [{}] * 10_000
    assert "is damaged in line 3: it has more than 10,000 rows, most of which say nothing. Record again." in refusal(
        written(tmp_path / "rows", [header, *rounds])
    )


def test_a_line_without_an_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of gzip can be a gigabyte of it."""
    monkeypatch.setattr(recording, "MOST_LINE", 1 << 20)
    monkeypatch.setattr(recording, "CHUNK", 1 << 16)
    header, *rounds = real()
    rounds[1]["more"] = "x" * (3 << 20)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(written(tmp_path / "bomb", [header, *rounds]).read_bytes()))
    assert "bomb.jsonl.gz is damaged in line 3: it is longer than 1 MiB. Record again." in refusal(path)
    assert count_rounds(path) == 1
    path.write_bytes(gzip.compress(b" " * (3 << 20)))
    assert "is not a recording of mpmon" in refusal(path)


def test_a_line_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(tmp_path / "hang.jsonl")
    whole = [row.taken_at for row in read_recording(path)]
    for chunk in (1, 7, 4096):
        monkeypatch.setattr(recording, "CHUNK", chunk)
        assert [row.taken_at for row in read_recording(path)] == whole


# What a line says


def put(*path: str | int) -> Callable[[list[Json], Json], None]:
    """Something else at a place of the first round."""

    def change(lines: list[Json], value: Json) -> None:
        place = lines[1]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


AT, PID, PARENT, RAN, MEMORY = (
    put("taken_at"), put("processes", 0, "pid"), put("processes", 0, "ppid"), put("blocked", 0, "ran_at"),
    put("processes", 0, "rss_bytes"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "value", "words"),
    [
        (AT, -1e12, "Expected `float` >= 0"),
        (AT, 1e308, "Expected `float` < 253370764800"),
        (AT, 253_370_764_800, "Expected `float` < 253370764800"),
        (AT, float("nan"), "JSON is malformed"),
        (AT, float("inf"), "JSON is malformed"),
        (AT, "now", "Expected `float`, got `str` - at `$.taken_at`"),
        (AT, None, "Expected `float`, got `null`"),
        (RAN, -1e308, "Expected `float` >= 0"),
        (PID, "x", "Expected `int`, got `str` - at `$.processes[0].pid`"),
        (PID, 1.5, "Expected `int`, got `float`"),
        (PID, True, "Expected `int`, got `bool`"),
        (PID, {"a": 1}, "Expected `int`, got `object`"),
        (MEMORY, 10**30, "it has a number of more than 64 bits"),
        (MEMORY, 2**64, "it has a number of more than 64 bits"),
        (put("processes", 0, "cmdline"), "train.py", "Expected `array | null`, got `str`"),
        (put("processes"), 7, "Expected `array`, got `int`"),
        (put("stacks", 0, "turns"), [[1]], "Expected `array` of length >= 2"),
    ],
)  # fmt: skip
def test_what_no_recording_of_ours_has(
    tmp_path: Path, change: Callable[[list[Json], Json], None], value: Json, words: str
) -> None:
    lines = real()
    change(lines, value)
    told = refusal(written(tmp_path / "file", lines))
    assert told.startswith(f"{tmp_path / 'file'} is damaged in line 2: {words}")
    assert told.endswith(". Record again.")


@pytest.mark.parametrize("nested", ['{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 100_000, '{"zz":' + "[" * 100_000])
def test_what_is_nested_deep(tmp_path: Path, nested: str) -> None:
    header, *_ = real()
    path = tmp_path / "file"
    path.write_text(f"{json.dumps(header)}\n{nested}\n")
    assert "is damaged in line 2: " in refusal(path)
    path.write_text(f"{nested}\n")
    assert "is not a recording of mpmon" in refusal(path)


def test_processes_that_are_their_own_ancestors(tmp_path: Path) -> None:
    """Who follows parents, or children, would never come to an end."""
    lines = real()
    processes = lines[1]["processes"]
    for parents in ([0, 0, 0], [1, 0, 0], [1, 2, 0], [5, 2, 1]):
        for row, parent in zip(processes, parents, strict=True):
            row["ppid"] = processes[parent]["pid"] if parent < len(processes) else 1
        told = refusal(written(tmp_path / "file", lines))
        assert "is damaged in line 2: a process is its own ancestor, or appears twice." in told


def test_a_process_that_is_there_twice(tmp_path: Path) -> None:
    lines = real()
    lines[1]["processes"].append(lines[1]["processes"][0])
    assert "is damaged in line 2: a process is its own ancestor, or appears twice." in refusal(
        written(tmp_path / "file", lines)
    )


@pytest.mark.parametrize("device", [-1, -(2**63), 2**63 - 1])
def test_a_device_that_there_is_not(tmp_path: Path, device: int) -> None:
    """Neither the last one, as Python counts, nor a defect."""
    first, second = ({"CUDA_VISIBLE_DEVICES": number} for number in "01")
    sides = producer(environment=first), consumer(environment=second), shim(ROOT), shim(CONSUMER)
    with Recorder(tmp_path / "file") as recorder:
        recorder.write(snapshot(*sides, gpu(0), gpu(1), sent(device=device), got(), refcounter((0, 1))))
    answer = mpmon("--replay", str(tmp_path / "file"), "--once", "--json")
    assert (answer.returncode, answer.stderr) == (4, "")
    told = json.loads(answer.stdout)
    (view,) = told["ipc_exports"]
    assert view["gpu_uuid"] is None
    assert view["reasons"]["gpu_uuid"] == f"cuda:{device} is not among what its environment shows"
    assert "cuda-device-order" not in [row["topic"] for row in told["remarks"]]


def test_damage_is_told_of_the_line_where_it_is(tmp_path: Path) -> None:
    lines = real()
    lines[-1]["taken_at"] = -1.0
    path = written(tmp_path / "file", lines)
    assert f"is damaged in line {len(lines)}: " in one_sentence(mpmon("--replay", str(path), "--once"), 2)
    assert "is damaged" in one_sentence(mpmon("--replay", str(path), "--once", "--json"), 2)


def test_a_format_with_codes_for_the_terminal_in_its_name(tmp_path: Path) -> None:
    header, *_ = real()
    header["schema"] = "\x1b]0;mine\x07\u202e" * 1000
    told = one_sentence(mpmon("--replay", str(written(tmp_path / "file", [header]))), 2)
    assert told.isprintable()
    assert len(told) < 400


def test_pictures_that_are_centuries_apart(tmp_path: Path) -> None:
    lines = real()
    lines[2]["taken_at"] = 250_000_000_000.0
    watch = ReplayWatch(written(tmp_path / "file", lines))
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.extend(row.number for row in watch))
    thread.start()
    while not watch._wishes._waiters:
        assert thread.is_alive()
        time.sleep(0.005)
    watch.stop()
    thread.join()
    assert seen == [1]


# Anything at all

ODD: tuple[Json, ...] = (
    -1, 0, 1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, -1e12, 1e308, -1e308, 0.5, "", "x", "²", "9" * 5000, "\x1b[31m",
    None, True, False, [], {}, [[]], [1, 2], {"a": 1},
)  # fmt: skip


def places(value: Json, path: Path_ = ()) -> Iterator[Path_]:
    """Every place of a tree of JSON."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inside:
        yield (*path, name)
        yield from places(item, (*path, name))


def at(value: Json, path: Path_) -> Json:
    for step in path:
        value = value[step]
    return value


def mutated(lines: list[Json], chance: random.Random) -> None:
    """Another value in a place, that of another place, one more of it, or none at all."""
    line = chance.choice(lines)
    found = list(places(line))
    place = chance.choice(found)
    inside, name = at(line, place[:-1]), place[-1]
    old = inside[name]
    how = chance.random()
    if how < 0.5:
        alike = [value for value in ODD if type(value) is type(old)]
        inside[name] = chance.choice(alike if alike and chance.random() < 0.7 else ODD)
    elif how < 0.6:
        del inside[name]
    elif how < 0.9 or not isinstance(inside, list):
        alike = [other for other in found if other[-1] == name or type(at(line, other)) is type(old)]
        inside[name] = copy.deepcopy(at(line, chance.choice(alike)))
    else:
        inside.insert(int(name), copy.deepcopy(old))


@pytest.mark.parametrize("seed", range(12))
def test_a_recording_in_which_anything_was_changed_is_shown_or_refused(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    small = sorted(case for case in cases() if (case / "recording.jsonl.gz").stat().st_size < 6000)
    outcomes = set[bool]()
    for _ in range(25):
        lines = real(chance.choice(small).name)
        for _ in range(chance.choice((1, 1, 2, 4))):
            mutated(lines, chance)
        path = written(tmp_path / "file", lines)
        try:
            outcomes.add(shown(path) > 0)
        except MpmonError:
            outcomes.add(False)
    assert outcomes == {True, False}
