"""A file that is always whole, and a port that answers this machine."""

from __future__ import annotations

import http.client
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.errors import UsageError
from mpmon.export import outlets
from mpmon.export.outlets import MOST, Server, TextFile, address, is_own
from tests.patience import NEVER_S


def test_a_file_is_replaced_and_removed(tmp_path: Path) -> None:
    told: list[str] = []
    file = TextFile(str(tmp_path / "job.prom"), told.append)
    file.put(b"one\n")
    first = os.open(tmp_path / "job.prom", os.O_RDONLY)
    file.put(b"two\n")
    assert os.read(first, 100) == b"one\n", "who reads it reads a whole one"
    os.close(first)
    assert (tmp_path / "job.prom").read_bytes() == b"two\n"
    umask = os.umask(0o22)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "job.prom").stat().st_mode) == 0o644 & ~umask
    assert [path.name for path in tmp_path.iterdir()] == ["job.prom"]
    file.close()
    assert (list(tmp_path.iterdir()), told) == ([], [])


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "job.prom").symlink_to("other")
    (tmp_path / f".job.prom.{os.getpid()}").symlink_to("other")
    TextFile(str(tmp_path / "job.prom"), print).put(b"one\n")
    assert (tmp_path / "other").read_text() == "mine"
    assert not (tmp_path / "job.prom").is_symlink()


def test_what_cannot_be_written_is_told_once_and_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    told: list[str] = []
    file = TextFile(str(folder / "job.prom"), told.append)
    folder.rmdir()
    file.put(b"one\n")
    file.put(b"two\n")
    assert told == [f"{folder}/job.prom is not written: No such file or directory"]
    folder.mkdir()
    file.put(b"three\n")
    assert (folder / "job.prom").read_bytes() == b"three\n"
    file.close()
    file.close()


@pytest.mark.parametrize(
    ("name", "words"), [("job.txt", "does not end in .prom"), ("none/job.prom", "there is no folder")]
)
def test_a_file_that_nobody_would_read(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        TextFile(str(tmp_path / name), print)


@pytest.mark.parametrize(
    ("text", "found"),
    [("9877", ("127.0.0.1", 9877)), (":0", ("127.0.0.1", 0)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:9", ("::1", 9))],
)  # fmt: skip
def test_an_address(text: str, found: tuple[str, int]) -> None:
    assert address(text) == found


@pytest.mark.parametrize("text", ["", "x", "1.2.3:4", "65536", "-1", "host:9877", "٣", "1.2.3.4:", "::1:"])
def test_no_address(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  whatever it says
        address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9877", "localhost:9877", "localhost", "[::1]:9877", "[::1]"])
def test_own_names(host: str) -> None:
    assert is_own(host)


@pytest.mark.parametrize("host", ["", "10.0.0.1", "evil.example:9877", "localhost.evil.example", "0.0.0.0:1", "[::]:1"])
def test_names_of_others(host: str) -> None:
    assert not is_own(host)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("127.0.0.1", 0, "text/plain")
    made.put(b"mpmon_hang_seconds 0\n")
    yield made
    made.close()


def asked(server: Server, path: str = "/metrics", *, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=NEVER_S)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_it_answers_with_the_last_text(server: Server) -> None:
    assert asked(server) == (200, b"mpmon_hang_seconds 0\n")
    server.put(b"mpmon_hang_seconds 9\n")
    assert asked(server, "/?x") == (200, b"mpmon_hang_seconds 9\n")


def test_it_answers_nothing_else(server: Server) -> None:
    assert asked(server, "/etc/passwd")[0] == 404
    assert asked(server, method="POST")[0] == 501
    assert asked(server, Host="evil.example")[0] == 403


def test_many_who_say_nothing_keep_nobody_out(server: Server) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * MOST)]
    assert asked(server)[0] == 200
    # The oldest were closed for the newer ones.
    silent[0].settimeout(NEVER_S)
    assert silent[0].recv(1) == b""
    for each in silent:
        each.close()


def test_one_who_says_nothing_is_not_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outlets.PATIENCE_S <= 10
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"GET /metrics HT")
        assert asked(server)[0] == 200


def test_a_port_that_is_taken(server: Server) -> None:
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1 port {server.port}: "):
        Server("127.0.0.1", server.port, "text/plain")
