"""py-spy's output: recorded, cut, garbled."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpmon.model import BOTH, MPMON, Frame, Stack
from mpmon.probes import stacks as stacks_module
from mpmon.probes.calls import KNOWN_LOCALS, MAX_FRAMES, Numbers
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.reader import RAN_ON, Reading
from mpmon.probes.stacks import (
    ATTEMPTS,
    LIMITS,
    OPINIONS,
    TORN,
    BadDump,
    StackProbe,
    limit,
    parse_dump,
)
from mpmon.probes.stat import Stat
from tests.patience import NEVER_S
from tests.sleepers import sleeper

RECORDED = (Path(__file__).parent / "fixtures" / "pyspy" / "threads.json").read_bytes()
AT = 7.0


def dump(*frames: dict[str, object], tid: int | None = 7) -> bytes:
    return json.dumps([{"pid": 7, "thread_name": "MainThread", "os_thread_id": tid, "frames": list(frames)}]).encode()


def local(name: str, value: int, *, arg: bool = True) -> dict[str, object]:
    return {"name": name, "addr": value, "arg": arg, "repr": str(value)}


def test_recorded_output() -> None:
    helper, main = parse_dump(RECORDED, 24548, AT)
    assert (helper.thread_name, main.thread_name) == ("helper", "MainThread")
    assert (main.pid, main.tid, main.taken_at) == (24548, 24548, AT)
    assert [frame.function for frame in main.frames] == ["Photos.__getitem__", "<module>"]
    assert [frame.line for frame in main.frames] == [5, 10]
    assert main.frames[0].file == "/home/ada/prog.py"
    assert [frame.function for frame in helper.frames[:2]] == ["Condition.wait", "Event.wait"]


def test_values_of_variables_are_not_kept() -> None:
    rows = parse_dump(RECORDED, 24548, AT)
    assert b"quoted" in RECORDED
    assert "quoted" not in repr(rows)
    assert rows[1].frames[0].known is None


def test_another_argument_is_another_digest() -> None:
    one, other = (
        parse_dump(dump({"name": "f", "line": 1, "locals": [local("index", n)]}), 7, AT)[0].frames[0] for n in (1, 2)
    )
    assert one.arguments_digest != other.arguments_digest
    assert one.locals_digest == other.locals_digest is None


def test_which_numbers_grow_from_one_reading_to_the_next() -> None:
    """Of the user's code, in the same call; a number that stayed, a text and what is not a number do not count."""
    numbers = Numbers()

    def trends(text: str, more: int, less: float) -> list[dict[str, int] | None]:
        found = [local("more", more), local("same", 3)]
        others = {"less": str(less), "text": text, "nan": "nan"}
        found += [{"name": name, "addr": 1, "repr": value} for name, value in others.items()]
        files = ("job.py", "/lib/python3.11/x.py")
        frames = [{"name": "f", "filename": file, "line": 1, "locals": found} for file in files]
        return [frame.trend for frame in parse_dump(dump(*frames), 7, AT, numbers=numbers)[0].frames]

    assert trends("'a'", 9, 0.5) == [None, None]
    assert trends("'b'", 10, 0.25) == [{"more": 1, "less": -1}, None]
    assert trends("'b'", 10, 0.25) == [None, None]


def test_the_numbers_of_another_call_are_not_compared() -> None:
    numbers = Numbers()
    for name, value in (("f", 1), ("g", 2), ("f", 3)):
        frame = {"name": name, "filename": "job.py", "line": 1, "locals": [local("n", value)]}
        assert parse_dump(dump(frame), 7, AT, numbers=numbers)[0].frames[0].trend is None


def test_the_number_of_a_worker_is_kept() -> None:
    locals_ = [local("worker_id", 3), local("num_workers", 4), local("secret", 5)]
    frame = parse_dump(dump({"name": "_worker_loop", "line": 1, "locals": locals_}), 7, AT)[0].frames[0]
    assert frame.known == {"worker_id": "3", "num_workers": "4"}
    assert "worker_id" in KNOWN_LOCALS["_worker_loop"]


def test_a_runaway_recursion_is_kept_at_both_ends() -> None:
    frames = [{"name": f"f{n}", "line": n} for n in range(1000)]
    found = parse_dump(dump(*frames), 7, AT)[0].frames
    assert len(found) == MAX_FRAMES
    assert (found[0].function, found[-1].function) == ("f0", "f999")


def test_a_thread_without_a_number_cannot_be_joined_to_anything() -> None:
    assert parse_dump(dump({"name": "f", "line": 1}, tid=None), 7, AT) == ()


def rows_or_bad(text: bytes) -> bool:
    """Whether there were rows; anything but rows or `BadDump` is an error."""
    try:
        found = parse_dump(text, 24548, AT)
    except BadDump:
        return False
    assert all(isinstance(row, Stack) for row in found)
    return True


@pytest.mark.parametrize("length", range(0, len(RECORDED), 50))
def test_output_that_is_cut(length: int) -> None:
    assert not rows_or_bad(RECORDED[:length])


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(RECORDED) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_output_with_wrong_bytes(changes: list[tuple[int, int]]) -> None:
    garbled = bytearray(RECORDED)
    for place, value in changes:
        garbled[place] = value
    rows_or_bad(bytes(garbled))


@given(st.binary(max_size=100))
def test_any_output(text: bytes) -> None:
    rows_or_bad(text)


@pytest.mark.parametrize(
    "text",
    [b"null", b"{}", b"7", b"[7]", b'["thread"]', b"[" * 100_000, b'[{"frames": [{"line": 3}]}]', b'[{"os_thread_id": "7"}]',
     b'[{"os_thread_id": 99999999999999999999999, "frames": []}]'],
    ids=lambda text: repr(text[:20]),
)  # fmt: skip
def test_json_of_another_shape(text: bytes) -> None:
    rows_or_bad(text)


@pytest.mark.parametrize(
    ("value", "known"),
    [("'tcp://10.0.0.1:29500'", "tcp://10.0.0.1:29500"), ("None", None), (f"'{'x' * 300}'", None)],
    ids=["an address", "none", "too long"],
)
def test_where_the_ranks_meet_is_kept(value: str, known: str | None) -> None:
    frame = {"name": "init_process_group", "filename": "distributed_c10d.py", "line": 9,
             "locals": [{"name": "init_method", "addr": 1, "arg": True, "repr": value}]}  # fmt: skip
    text = json.dumps([{"thread_name": "MainThread", "os_thread_id": 7, "frames": [frame]}]).encode()
    kept = parse_dump(text, 7, AT)[0].frames[0].known
    assert (kept or {}).get("init_method") == known


# A program in the place of py-spy


@pytest.fixture
def spy(tmp_path: Path) -> Callable[..., StackProbe]:
    """A probe whose py-spy is a shell script, which has all the time that it takes."""

    def make(script: str, deadline_s: float = NEVER_S) -> StackProbe:
        path = tmp_path / "py-spy"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return StackProbe(Proc(), executable=str(path), deadline_s=deadline_s)

    return make


def told(probe: StackProbe) -> str:
    stacks, unknowns = probe.dump([os.getpid()], lambda: AT)
    assert stacks == {}
    return unknowns[os.getpid()].reason


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo '[{'", "py-spy's answer could not be used"),
        ("exit 1", "py-spy: failed without a message"),
        ("echo 'Error: Failed to find python version from target process' >&2; exit 1", "not a Python process"),
        ("echo 'Error: the moon is full' >&2; echo more >&2; exit 1", "py-spy: the moon is full"),
        ("kill -9 $$", "py-spy: failed without a message"),
    ],
)
def test_why_there_are_no_stacks(spy: Callable[..., StackProbe], script: str, words: str) -> None:
    assert words in told(spy(script))


@pytest.mark.parametrize(("times", "found"), [(1, True), (2, True), (3, False)])
def test_frames_that_change_too_fast_are_asked_for_again(
    spy: Callable[..., StackProbe], tmp_path: Path, times: int, found: bool
) -> None:
    """The program leaves a letter for each time that it was asked."""
    log = tmp_path / "asked"
    answer = f'[{{"pid": {os.getpid()}, "thread_id": 1, "os_thread_id": {os.getpid()}, "frames": []}}]'
    probe = spy(
        f"printf x >> {log}; [ $(wc -c < {log}) -gt {times} ] && echo '{answer}' && exit; echo 'Error: {TORN}' >&2; exit 1"
    )
    stacks, unknowns = probe.dump([os.getpid()], lambda: AT)
    assert (os.getpid() in stacks, os.getpid() in unknowns) == (found, not found)
    assert log.read_text() == "x" * min(times + 1, ATTEMPTS)


def test_the_memory_of_py_spy_is_limited(spy: Callable[..., StackProbe]) -> None:
    kilobytes = LIMITS[resource.RLIMIT_AS] >> 10
    script = f'until [ "$(ulimit -v) $(ulimit -c)" = "{kilobytes} 0" ]; do :; done; echo "limited to $(ulimit -v)" >&2; exit 1'
    assert told(spy(script)) == f"py-spy: limited to {kilobytes}"


@pytest.mark.parametrize("script", ["head -c 3000000 /dev/zero", "exec yes", "exec yes >&2"])
def test_one_that_says_too_much_is_ended(
    spy: Callable[..., StackProbe], script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks_module, "OUTPUT_LIMIT", 1 << 20)
    probe = spy(f"echo $$ > {tmp_path}/pid; {script}")
    assert told(probe) == "py-spy had more than 1 MiB of output about it, and was stopped"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize("script", ["while :; do echo; done", "exec sleep 30"], ids=["talks on", "says nothing"])
def test_one_that_does_not_come_to_an_end_is_late(spy: Callable[..., StackProbe], script: str) -> None:
    assert told(spy(script, deadline_s=0.5)) == "py-spy did not answer within 0.5 s"


def test_what_it_says_comes_in_pieces(spy: Callable[..., StackProbe], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks_module, "CHUNK", 7)
    answer = f'[{{"pid": {os.getpid()}, "thread_id": 1, "os_thread_id": {os.getpid()}, "frames": []}}]'
    probe = spy(f"echo a few words >&2; echo '{answer}'")
    found, unknowns = probe.dump([os.getpid()], lambda: AT)
    assert (list(found), unknowns) == ([os.getpid()], {})


def test_a_lower_limit_stays() -> None:
    lower = (LIMITS[resource.RLIMIT_AS] // 2, resource.getrlimit(resource.RLIMIT_AS)[1])
    child = subprocess.Popen(["sleep", "1000"])
    resource.prlimit(child.pid, resource.RLIMIT_AS, lower)
    limit(child.pid)
    assert resource.prlimit(child.pid, resource.RLIMIT_AS) == lower
    child.kill()
    child.wait()
    limit(child.pid)


def test_without_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = StackProbe(Proc(), executable=None)
    monkeypatch.setattr(probe, "_executable", None)
    assert "pip install" in told(probe)


def test_a_process_that_has_ended(spy: Callable[..., StackProbe], tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    _, unknowns = spy("exit 1").dump([child], lambda: AT)
    assert unknowns[child].gone


# Who is asked


def test_what_we_read_ourselves_needs_no_py_spy() -> None:
    with sleeper() as child:
        probe = StackProbe(Proc(), by_itself=True, executable="/bin/false")
        stacks, unknowns = probe.dump([child.pid], lambda: AT)
    assert ([row.tid for row in stacks[child.pid]], unknowns, probe.dumps) == ([child.pid], {}, 0)


def test_what_we_cannot_read_is_left_to_py_spy(spy: Callable[..., StackProbe]) -> None:
    probe = spy("echo 'Error: the moon is full' >&2; exit 1")
    probe._by_itself = True
    with subprocess.Popen(["sleep", "1000"]) as child:
        _, unknowns = probe.dump([child.pid], lambda: AT)
        child.kill()
    assert (unknowns[child.pid].reason, probe.dumps) == ("py-spy: the moon is full", 1)


def test_py_spy_alone_is_asked_where_we_are_told_so(spy: Callable[..., StackProbe]) -> None:
    probe = spy("echo 'Error: the moon is full' >&2; exit 1")
    with sleeper() as child:
        assert probe.dump([child.pid], lambda: AT)[1][child.pid].reason == "py-spy: the moon is full"
    assert probe.dumps == 1


def test_a_thread_that_ran_on_is_told_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Stack(pid=7, tid=7, thread_name="", taken_at=AT, frames=())
    monkeypatch.setattr(stacks_module, "read_stacks", lambda *_, **_more: Reading((row,), problem=f"thread 8 {RAN_ON}"))
    stacks, unknowns = StackProbe(Proc(), by_itself=True, executable="/bin/false").dump([7], lambda: AT)
    assert stacks == {7: (row,)}
    assert unknowns[7].reason == "thread 8 kept running while it was read"


# A second reader


def said_by(row: Stack, *lines: int) -> str:
    """What py-spy would print of such a thread, with other lines."""
    frames = [
        {"name": frame.function, "filename": frame.file, "line": line}
        for frame, line in zip(row.frames, lines, strict=True)
    ]
    return json.dumps([{"thread_id": row.ident, "os_thread_id": row.tid, "frames": frames}])


def sleeps(pid: int) -> None:
    """Return when a process that said it is ready has gone to sleep."""
    while (found := Stat.read(Proc(), pid)) and found.state != "S":
        time.sleep(0.001)


def test_both_readers_tell_the_same_of_one_that_sleeps() -> None:
    with sleeper() as child:
        sleeps(child.pid)
        probe = StackProbe(Proc(), by_itself=True)
        rows = probe.dump([child.pid], lambda: AT)[0][child.pid]
        seconded, unknown = probe.second(child.pid, rows, [child.pid], lambda: AT)
    assert ([row.reader for row in rows], [row.reader for row in seconded]) == ([MPMON], [BOTH])
    assert (unknown, probe.dumps) == (None, 1)


def test_without_py_spy_there_is_no_second_reader(spy: Callable[..., StackProbe]) -> None:
    row = Stack(pid=os.getpid(), tid=os.getpid(), thread_name="", taken_at=AT, frames=(), reader=MPMON)
    assert spy("exit 1").second(os.getpid(), (row,), [row.tid], lambda: AT) == ((row,), None)


@pytest.mark.parametrize("differ", [1, OPINIONS], ids=["at first", "always"])
def test_where_readers_differ_both_read_anew(spy: Callable[..., StackProbe], tmp_path: Path, differ: int) -> None:
    with sleeper() as child:
        sleeps(child.pid)
        row = StackProbe(Proc(), by_itself=True).dump([child.pid], lambda: AT)[0][child.pid][0]
        log, lines = tmp_path / "asked", [frame.line for frame in row.frames]
        wrong, right = said_by(row, *(line + 1 for line in lines)), said_by(row, *lines)
        probe = spy(f"printf x >> {log}; [ $(wc -c < {log}) -gt {differ} ] && echo '{right}' || echo '{wrong}'")
        rows, unknown = probe.second(child.pid, (row,), [row.tid], lambda: AT)
    if differ < OPINIONS:
        assert ([row.reader for row in rows], unknown) == ([BOTH], None)
    else:
        assert rows == ()
        assert unknown is not None
        assert "read different stacks" in unknown.reason
    assert log.read_text() == "x" * min(differ + 1, OPINIONS)


@pytest.mark.parametrize("name", ["f\ufffd", "f" * 5000], ids=["no UTF-8", "too long"])
def test_calls_whose_names_py_spy_cannot_read_are_not_compared(name: str) -> None:
    def row(*functions: str) -> Stack:
        frames = tuple(Frame(function=function, file="train.py", line=7) for function in functions)
        return Stack(pid=7, tid=7, thread_name="", taken_at=AT, frames=frames)

    assert stacks_module._agree(row("get", name, "main"), row("get", "main"), ran=False)
    assert not stacks_module._agree(row("get", name, "main"), row("put", "main"), ran=False)


def test_of_a_thread_that_runs_only_the_outermost_call_must_agree() -> None:
    def row(*functions: str) -> Stack:
        frames = tuple(Frame(function=function, file="job.py", line=7) for function in functions)
        return Stack(pid=7, tid=7, thread_name="", taken_at=AT, frames=frames)

    assert stacks_module._agree(row("leaf", "main"), row("main"), ran=True)
    assert not stacks_module._agree(row("leaf", "main"), row("main"), ran=False)
    assert not stacks_module._agree(row("leaf", "main"), row("other"), ran=True)
    assert not stacks_module._agree(row("main"), None, ran=True)


def test_py_spy_does_not_say_where_code_was_written_that_another_process_sent() -> None:
    def row(file: str, line: int) -> Stack:
        return Stack(pid=7, tid=7, thread_name="", taken_at=AT, frames=(Frame(function="task", file=file, line=line),))

    assert stacks_module._agree(row("train.py", 7), row("<dynamic-code>", 7), ran=False)
    assert not stacks_module._agree(row("train.py", 7), row("<dynamic-code>", 8), ran=False)
    assert not stacks_module._agree(row("train.py", 7), row("<string>", 7), ran=False)


def test_a_line_may_differ_where_py_spy_is_known_to_err() -> None:
    def row(line: int, version: str) -> Stack:
        frames = (Frame(function="get", file=f"/usr/lib/python{version}/queue.py", line=line),)
        return Stack(pid=7, tid=7, thread_name="", taken_at=AT, frames=frames)

    assert stacks_module._agree(row(171, "3.10"), row(172, "3.10"), ran=False)
    assert not stacks_module._agree(row(171, "3.11"), row(172, "3.11"), ran=False)
