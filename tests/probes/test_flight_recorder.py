"""Flight Recorders: recorded dumps of three gloo ranks (torch 2.13), servers that answer well and badly, and garbage.

In the recording rank 1 has enqueued 2 collectives and the others 4, of which the last two wait for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.errors import UsageError
from mpmon.model import FlightRecord
from mpmon.probes.files import Proc
from mpmon.probes.flight_recorder import FlightRecorder, Look, Reading, asking, files, read_all, servers, sources
from mpmon.probes.flight_recorder.dump import NEWEST, BadDump, parse_dump
from mpmon.probes.flight_recorder.files import rank_of_name
from mpmon.probes.flight_recorder.servers import blocks
from tests.patience import NEVER_S, becomes
from tests.probes.test_door import LEASES, lives_on
from tests.sleepers import sleeper

RECORDED = Path(__file__).parent / "fixtures" / "flight_recorder"
DUMPS = [(RECORDED / f"rank{rank}.json").read_text(encoding="utf-8") for rank in range(3)]
AT = 1000.0

Answer = tuple[int, bytes]


def look(*pids: int) -> Look:
    return Look(Proc(), pids or (os.getpid(),), time.time)


def read(*words: str) -> Reading:
    return read_all(sources(words), look())


def enqueued(reading: Reading) -> dict[int | None, int]:
    return {record.rank: group.enqueued for record in reading.records for group in record.groups}


def entry(number: int, **more: object) -> dict[str, object]:
    return {
        "collective_seq_id": number, "profiling_name": "nccl:all_reduce", "process_group": ["0", "default_pg"],
        "pg_id": 0, "state": "scheduled", **more,
    }  # fmt: skip


def dump(*entries: object, **more: object) -> str:
    return json.dumps({"entries": entries, **more})


# One dump


def test_a_recorded_dump() -> None:
    found = parse_dump(DUMPS[0], rank=0, pid=None, read_at=AT)
    (group,) = found.record.groups
    assert (group.backend, group.name, group.description) == ("gloo", "0", "default_pg")
    assert (group.enqueued, group.waits_in, group.counted) == (4, 3, True)
    assert [(row.number, row.operation, row.state) for row in found.collectives] == [
        (1, "all_reduce", "completed"), (2, "all_reduce", "completed"),
        (3, "all_reduce", "scheduled"), (4, "all_reduce", "scheduled"),
    ]  # fmt: skip
    assert {(row.sizes, row.dtypes) for row in found.collectives} == {(((3,),), ("Float",))}


def test_the_newest_are_kept_and_the_oldest_that_is_not_finished() -> None:
    rows = [entry(number, state="completed") for number in range(100) if number != 7]
    found = parse_dump(dump(entry(7), *rows), rank=0, pid=None, read_at=AT)
    assert [row.number for row in found.collectives] == [7, *range(100 - NEWEST, 100)]
    assert found.record.groups[0].waits_in == 7


def test_members_and_the_line_that_called() -> None:
    frames = [{"filename": "/x/torch/distributed/d.py", "line": 1}, {"filename": "/home/ada/job.py", "line": 9}]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 5]"}}
    found = parse_dump(dump(entry(1, frames=frames), pg_config=config), rank=0, pid=None, read_at=AT)
    assert found.record.groups[0].ranks == (0, 1, 5)
    assert (found.collectives[0].file, found.collectives[0].line) == ("/home/ada/job.py", 9)


def test_a_group_without_entries_is_known_by_its_status() -> None:
    status = {"0": {"last_enqueued_collective": "5", "last_completed_collective": "5"}, "3": {}}
    found = parse_dump(dump(pg_status=status), rank=0, pid=None, read_at=AT).record
    assert [(group.name, group.enqueued, group.counted) for group in found.groups] == [("0", 5, False)]
    assert found.unnamed == 1


def test_point_to_point_operations_are_no_collectives() -> None:
    found = parse_dump(dump(entry(3, is_p2p=True)), rank=0, pid=None, read_at=AT)
    assert (found.record.groups, found.collectives) == ((), ())


def test_a_dump_may_say_itself_of_which_rank_it_is() -> None:
    assert parse_dump(dump(rank=5), rank=1, pid=None, read_at=AT).record.rank == 5


@pytest.mark.parametrize(
    "bad", [3, "x", None, [], {"collective_seq_id": "x"}, entry(1, process_group=["0"]), entry(-1)]
)
def test_an_entry_that_cannot_be_read_is_left_out(bad: object) -> None:
    found = parse_dump(dump(bad, entry(2)), rank=0, pid=None, read_at=AT)
    assert [row.number for row in found.collectives] == [2]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff", b"[1]", b"{}", b"null", b"[" * 100_000, pickle.dumps({}), DUMPS[0][:-9].encode()]
)
def test_what_is_no_dump_says_so(text: bytes) -> None:
    with pytest.raises(BadDump):
        parse_dump(text, rank=0, pid=None, read_at=AT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ENTRIES = st.fixed_dictionaries({}, optional=dict.fromkeys(entry(1), JSON) | {"frames": JSON, "input_sizes": JSON})


@given(entries=st.lists(ENTRIES | JSON, max_size=4) | JSON, status=JSON, config=JSON, rank=JSON)
def test_any_json_is_read_or_refused(entries: object, status: object, config: object, rank: object) -> None:
    text = json.dumps({"entries": entries, "pg_status": {"0": status}, "pg_config": {"0": config}, "rank": rank})
    with contextlib.suppress(BadDump):
        parse_dump(text, rank=0, pid=None, read_at=AT)


@given(st.binary(max_size=64), st.integers(0, 400), st.integers(0, 400))
def test_a_dump_with_garbage_in_it_is_read_or_refused(garbage: bytes, start: int, length: int) -> None:
    text = DUMPS[0].encode()
    with contextlib.suppress(BadDump):
        parse_dump(text[:start] + garbage + text[start + length :], rank=0, pid=None, read_at=AT)


@given(st.text(max_size=80))
def test_any_page_is_read(text: str) -> None:
    list(blocks(f"<h2>Rank 0: a</h2><pre>{text}</pre><h2>Rank 1: b</h2>{text}"))


# Files


def test_a_folder_of_recorded_dumps() -> None:
    reading = read(str(RECORDED))
    assert enqueued(reading) == {0: 4, 1: 2, 2: 4}
    assert reading.unknowns == ()


def test_one_file() -> None:
    assert enqueued(read(str(RECORDED / "rank1.json"))) == {1: 2}


@pytest.mark.parametrize(
    ("name", "rank"), [("rank3.json", 3), ("nccl_trace_rank_12.json", 12), ("job7-4.json", 4), ("dump.json", None)]
)
def test_the_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_of_name(f"/tmp/5/{name}") == rank


def refusal(word: str) -> str:
    with pytest.raises(UsageError) as told:
        sources([word])
    return f"{told.value} {told.value.remedy}"


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(Trap()))
    for word in (str(tmp_path), str(tmp_path / "nccl_trace_rank_0")):
        assert "is a pickle, which mpmon never loads" in refusal(word)
        assert "make JSON of it" in refusal(word)
    assert not (tmp_path / "sprung").exists()


def test_files_that_are_no_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe0.json")
    (tmp_path / "rank0.json").write_text("{}")
    (tmp_path / "dump.json").write_text(DUMPS[0])
    assert "neither a file nor a folder" in refusal(str(tmp_path / "pipe0.json"))
    assert "not from a Flight Recorder" in refusal(str(tmp_path / "rank0.json"))
    assert "which rank it belongs to" in refusal(str(tmp_path / "dump.json"))
    assert "No such file" in refusal(str(tmp_path / "none.json"))
    (tmp_path / "empty").mkdir()
    assert "ends in .json" in refusal(str(tmp_path / "empty"))


def test_a_file_that_goes_bad_later_is_a_fact(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(DUMPS[0])
    named = sources([str(tmp_path)])
    (tmp_path / "rank0.json").write_text("{")
    os.mkfifo(tmp_path / "rank1.json")
    (tmp_path / "rank2.json").write_text(DUMPS[2])
    reading = read_all(named, look())
    assert enqueued(reading) == {2: 4}
    (unknown,) = reading.unknowns
    assert "rank0.json is not JSON" in unknown.reason
    assert "rank1.json is not a regular file" in unknown.reason


def test_a_link_is_followed_only_where_the_user_names_it(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(DUMPS[2])
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "rank0.json").write_text(DUMPS[0])
    (tmp_path / "folder" / "rank2.json").symlink_to(tmp_path / "elsewhere")
    reading = read(str(tmp_path / "folder"))
    assert enqueued(reading) == {0: 4}
    assert "rank2.json is a link, which mpmon follows only where it is named itself" in reading.unknowns[0].reason
    assert enqueued(read(str(tmp_path / "folder" / "rank2.json"))) == {2: 4}


def test_a_lease_on_a_dump_is_not_broken(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(DUMPS[0])
    (tmp_path / "rank1.json").write_text(DUMPS[1])
    with sleeper(LEASES, arguments=[str(tmp_path / "rank1.json")]) as child:
        (unknown,) = read(str(tmp_path)).unknowns
        assert "rank1.json: has a lease of another process on it" in unknown.reason
        assert lives_on(child)


def test_no_name_in_a_folder_makes_it_wait(tmp_path: Path) -> None:
    """Each is a pipe that nobody writes to, or leads to one."""
    os.mkfifo(tmp_path / "rank0.json")
    (tmp_path / "rank1.json").symlink_to("rank0.json")
    (tmp_path / "rank2.json").mkdir()
    reading = read(str(tmp_path))
    assert [part.rpartition("/")[2] for part in reading.unknowns[0].reason.split("; ")] == [
        "rank0.json is not a regular file",
        "rank1.json is a link, which mpmon follows only where it is named itself",
        "rank2.json is not a regular file",
    ]
    for name in ("rank0", "rank1", "rank2"):
        (tmp_path / f"{name}.json").rename(tmp_path / name)
    assert "ends in .json" in refusal(str(tmp_path))


def test_a_file_from_before_all_calendars(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(DUMPS[0])
    os.utime(tmp_path / "rank0.json", (-1e9, -1e9))
    assert [record.read_at for record in read(str(tmp_path)).records] == [0.0]


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rank0.json").write_text(DUMPS[0])
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    assert "is larger than" in refusal(str(tmp_path / "rank0.json"))


# Servers


@contextlib.contextmanager
def serving(
    answer: Callable[[str, str], Answer], *, header: tuple[str, str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """A server on this machine; its address, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            status, body = answer(self.command, self.path)
            self.send_response(status)
            if header:
                self.send_header(*header)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  http.server looks for it by that name

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def worker(method: str, path: str) -> Answer:
    if (method, path) == ("GET", "/handler/"):
        return 200, b'["ping","fr_trace_json"]'
    return (200, DUMPS[1].encode()) if (method, path) == ("POST", "/handler/fr_trace_json") else (404, b"")


def front_end(method: str, path: str) -> Answer:
    """As the template of torch/distributed/debug/_frontend.py draws it."""
    if path == "/fr_trace_json":
        told = "".join(f"<h2>Rank {rank}: http://x:1/?</h2>\n<pre>{DUMPS[rank]}</pre>\n" for rank in (0, 1))
        failed = "<h2>Rank 2: http://x:2/?</h2>\n<p>Failed to fetch: status=408</p>\n<pre>Timeout</pre>\n"
        return 200, f"<html>{told}{failed}</html>".encode()
    if path == "/fr_trace_nccl_json":
        failed = "<p>Failed to fetch: status=404</p><pre>no handler</pre>"
        return 200, "".join(f"<h2>Rank {rank}: x</h2>{failed}" for rank in range(3)).encode()
    return 404, b"Handler not found"


def test_the_server_of_one_rank_is_known_by_the_process_that_listens() -> None:
    with serving(worker) as (address, asked):
        reading = read(address)
    assert asked == ["GET /handler/", "POST /handler/fr_trace_json"]
    (record,) = reading.records
    assert (record.rank, record.pid, record.groups[0].enqueued) == (None, os.getpid(), 2)


def test_the_server_of_another_job() -> None:
    with serving(worker) as (address, _):
        (unknown,) = read_all(sources([address]), look(os.getppid())).unknowns
    assert "no process of this job listens there" in unknown.reason


def test_a_front_end_names_the_ranks_and_those_that_did_not_answer() -> None:
    with serving(front_end) as (address, _):
        reading = read(address)
    assert enqueued(reading) == {0: 4, 1: 2}
    assert [row.reason for row in reading.unknowns] == [f"{address}: rank 2 did not answer it (status 408)"]


def reason(answer: Callable[[str, str], Answer], **more: tuple[str, str]) -> str:
    with serving(answer, **more) as (address, _):
        (unknown,) = read(address).unknowns
    return unknown.reason


def test_servers_that_are_something_else() -> None:
    assert "is not a torch debug server: it answered 404" in reason(lambda *_: (404, b""))
    assert "is not a torch debug server: it answered 200" in reason(lambda *_: (200, b"hello"))
    assert "is not JSON" in reason(lambda _, path: (200, b'["fr_trace_json"]' if path == "/handler/" else b"{"))
    assert "no Flight Recorder" in reason(lambda _, path: (200, b'["ping"]') if path == "/handler/" else (404, b""))


def test_nobody_is_sent_to_another_host() -> None:
    with serving(lambda *_: (200, b'["fr_trace_json"]')) as (elsewhere, asked):
        assert "302" in reason(lambda *_: (302, b""), header=("Location", f"{elsewhere}/handler/"))
    assert asked == []


def test_an_answer_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "MOST_BYTES", 1000)
    assert "answered more than" in reason(lambda *_: (200, b" " * 2000))


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "DEADLINE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (unknown,) = read(f"http://127.0.0.1:{silent.getsockname()[1]}").unknowns
    assert "did not answer within" in unknown.reason


ENOUGH, PIECES = 2 << 20, 100
"""Bytes, or pieces that somebody wanted, after which a server ends that would go on for ever: who hears it has to have left."""


@contextlib.contextmanager
def endless(
    start: bytes, more: bytes, wanted: threading.Semaphore | None = None
) -> Iterator[tuple[str, threading.Event]]:
    """A server that comes to no end by itself; its address, and what is set once nobody hears it any more.

    With `wanted` it sends one piece each time that is released.
    """
    door, left = socket.create_server(("127.0.0.1", 0)), threading.Event()
    address = f"http://127.0.0.1:{door.getsockname()[1]}"

    def answer() -> None:
        with door, door.accept()[0] as line, contextlib.suppress(OSError):
            line.recv(4096)
            line.sendall(start)
            for _ in range(PIECES if wanted else ENOUGH // len(more)):
                if wanted:
                    wanted.acquire()
                line.sendall(more)
        left.set()

    thread = threading.Thread(target=answer)
    thread.start()
    yield address, left
    if wanted:
        wanted.release(PIECES)
    thread.join()


READ_S = 30.0


class Clock:
    """Time goes by only where something is read, and a server sends something only then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = threading.Semaphore(0)

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()

    def recv_into(line: socket.socket, *given: Any) -> int:
        made.now += READ_S
        made.reads.release()
        return super(socket.socket, line).recv_into(*given)

    monkeypatch.setattr(asking, "time", made)
    monkeypatch.setattr(socket.socket, "recv_into", recv_into, raising=False)
    return made


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"A"),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["status", "line", "header", "continue", "body", "chunks"],
)
def test_the_limit_of_time_is_for_all_of_an_answer(
    start: bytes, more: bytes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece comes soon after the one before."""
    monkeypatch.setattr(servers, "DEADLINE_S", 10 * READ_S)
    with endless(start, more, clock.reads) as (address, _):
        (unknown,) = read(address).unknowns
    assert unknown.reason == f"{address} did not answer within 300 s"
    assert clock.now == 10 * READ_S


@pytest.mark.parametrize(
    ("start", "more", "words"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "more than 64 KiB without reaching the requested data"),
        (b"", b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n", "more than 64 KiB without reaching the requested data"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 4096, "more than 1 MiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n", b"x" * 4096, "more than 1 MiB"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;a=b\r\nx\r\n", "more than 1 MiB"),
    ],
    ids=["continue", "continue-with-header", "body", "length", "chunks"],
)
def test_so_many_bytes_and_no_more(start: bytes, more: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(servers, "DEADLINE_S", NEVER_S)
    with endless(start, more) as (address, left):
        (unknown,) = read(address).unknowns
        assert left.wait(NEVER_S)
    assert unknown.reason == f"{address} answered {words}"


def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(front_end) as (address, _), socket.create_server(("127.0.0.1", 0)) as closed:
        real, port = socket.getaddrinfo, closed.getsockname()[1]
        closed.close()
        found = [*real("127.0.0.1", port, type=socket.SOCK_STREAM), *real("127.0.0.1", int(address[17:]))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found[:2])
        assert enqueued(read("http://name:1")) == {0: 4, 1: 2}


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    assert [row.reason for row in read(address).unknowns] == [f"{address}: Connection refused"]


@pytest.mark.parametrize(
    "word",
    [
        "https://x:1",
        "http://x",
        "http://x:port",
        "http://:1",
        "http://x:1/y",
        "http://a@x:1",
        "ftp://x:1",
        "http://[:1",
        "http://h st:1",
        "http://h\x9bst:1",
        "http://h\u202est:1",
    ],
)
def test_what_is_no_address(word: str) -> None:
    assert "is not the address of a debug server" in refusal(word)


# The thread


class Steps:
    """A source that a test opens."""

    def __init__(self) -> None:
        self.reads = 0
        self.began, self.may_end = threading.Event(), threading.Event()
        self.problem: Exception | None = None

    def read(self, look: Look) -> Iterator[object]:
        self.reads += 1
        self.began.set()
        assert self.may_end.wait(NEVER_S)
        if self.problem:
            raise self.problem
        yield parse_dump(DUMPS[1], rank=1, pid=None, read_at=look.now())


def test_it_is_read_beside_the_loop_again_where_somebody_came_to_rest_and_after_a_while() -> None:
    source, clock = Steps(), [AT]
    recorder = FlightRecorder((source,))  # type: ignore[arg-type]
    seen = Look(Proc(), (), lambda: clock[0])
    assert recorder.look(seen, None).records == ()
    assert source.began.wait(NEVER_S)
    clock[0] += 1.0
    assert [row.reason for row in recorder.look(seen, AT + 1).unknowns] == ["no answer from the flight recorder yet"]
    source.may_end.set()
    assert becomes(lambda: recorder.look(seen, None).records)
    first = recorder.look(seen, None)
    assert isinstance(first.records[0], FlightRecord)
    clock[0] += 22.0
    assert recorder.look(seen, None) is first
    assert recorder.look(seen, AT - 2) is first
    recorder.look(seen, AT + 9)
    assert becomes(lambda: recorder.look(seen, None) is not first)
    second = recorder.look(seen, None)
    assert second.collectives is first.collectives
    assert source.reads == 2
    clock[0] += 31.0
    assert becomes(lambda: recorder.look(seen, None) is not second)
    assert source.reads == 3
    recorder.close()


def test_whatever_goes_wrong_is_told_and_ends_nothing() -> None:
    source = Steps()
    source.problem = RuntimeError("surprise")
    source.may_end.set()
    recorder = FlightRecorder((source,))  # type: ignore[arg-type]
    assert becomes(lambda: recorder.look(look(), time.time()).report)
    report = recorder.look(look(), None).report
    assert report is not None
    assert "surprise" in (report.problem or "")
    recorder.close()
