"""Sockets by inode, with addresses and the other end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Generator

import pytest

from mpmon.model import KernelObject
from mpmon.probes import sockets
from mpmon.probes.files import Proc
from mpmon.probes.sockets import SocketTable
from tests.patience import GLANCE_S, patience

pytestmark = pytest.mark.skipif(
    sys.byteorder != "little", reason="the recorded addresses are of a little-endian machine"
)


NOW = 1_767_002_000.0


def described(proc: Proc, inode: int, pid: int = 4100) -> KernelObject:
    return SocketTable(proc, NOW).describe(pid, f"socket:{inode}")


def test_both_ends_of_a_connection_on_this_machine(recorded: Proc) -> None:
    assert described(recorded, 2001) == KernelObject(
        id="socket:2001", kind="socket", path="tcp 127.0.0.1:29001 to 127.0.0.1:50000", fill=12, peer="socket:2002",
        unacknowledged_bytes=0, resends=0,
    )  # fmt: skip
    assert described(recorded, 2002).peer == "socket:2001"


@pytest.mark.parametrize(
    ("inode", "path", "fill"),
    [
        (2000, "tcp listening on 127.0.0.1:29001", 0),
        (2005, "tcp 15.2.0.10:53248 to 192.168.1.34:443", 0),
        (2010, "tcp listening on [::1]:8080", 0),
        (2011, "tcp [2001:db8::fade]:8080 to [2001:db8::babe]:50001", 3),
        (2012, "tcp 127.0.0.1:8081 to 127.0.0.1:50002", 0),
        (2003, "unix /tmp/pymp-x/listener-y", None),
        (2004, "unix", None),
        (2006, "unix @abstract", None),
    ],
)
def test_addresses(recorded: Proc, inode: int, path: str, fill: int | None) -> None:
    row = described(recorded, inode)
    assert (row.path, row.fill, row.peer) == (path, fill, None)


def test_a_socket_that_is_not_listed(recorded: Proc) -> None:
    assert described(recorded, 9999) == KernelObject(id="socket:9999", kind="socket")


def test_a_process_whose_network_may_not_be_read(recorded: Proc) -> None:
    assert described(recorded, 2001, pid=4140) == KernelObject(id="socket:2001", kind="socket")


def test_a_listening_socket_of_the_files(recorded: Proc) -> None:
    assert [described(recorded, inode).listens for inode in (2000, 2001, 2003, 2004)] == [True, False, True, False]


# Real sockets


def real(item: socket.socket, pid: int | None = None) -> KernelObject:
    return SocketTable(Proc(), time.time()).describe(pid or os.getpid(), name(item))


def name(item: socket.socket) -> str:
    return f"socket:{os.fstat(item.fileno()).st_ino}"


@contextlib.contextmanager
def server(family: socket.AddressFamily, host: str, backlog: int = 8) -> Generator[socket.socket]:
    with socket.socket(family) as listening:
        try:
            listening.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} here")
        listening.listen(backlog)
        yield listening


def lose_all(item: socket.socket) -> None:
    """From now on whatever comes for this end of a connection is lost before it arrives: socket(7), SO_ATTACH_FILTER."""
    drop = struct.pack("=HBBI", 6, 0, 0, 0)  # BPF_RET of linux/filter.h: keep no byte
    kept = ctypes.create_string_buffer(drop)
    item.setsockopt(socket.SOL_SOCKET, 26, struct.pack("@HP", 1, ctypes.addressof(kept)))


@pytest.fixture(params=["kernel", "files"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who is asked: the kernel, or where a filter forbids that, the files."""
    if request.param == "files":

        def refused() -> list[object]:
            raise PermissionError

        monkeypatch.setattr(sockets, "tcp_sockets", refused)
        monkeypatch.setattr(sockets, "unix_sockets", refused)
    return request.param


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize(
    ("family", "host", "to"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
    ],
    ids=["IPv4", "IPv6", "IPv4 to IPv6"],
)
def test_a_connection_before_and_after_it_is_accepted(family: socket.AddressFamily, host: str, to: str) -> None:
    with server(family, host) as listening, socket.create_connection((to, listening.getsockname()[1])) as client:
        waiting = real(client)
        assert (waiting.peer, waiting.listener) == (None, name(listening))
        assert (real(listening).listens, real(listening).fill) == (True, 1)
        accepted, _ = listening.accept()
        with accepted:
            client.sendall(b"hello")
            assert (real(client).peer, real(client).listener) == (name(accepted), None)
            assert (real(accepted).peer, real(accepted).fill) == (name(client), 5)
            assert real(listening).fill == 0


@pytest.mark.usefixtures("source")
def test_of_two_listeners_on_one_address_the_one_whose_queue_has_the_connection() -> None:
    """Two processes listen on a port with SO_REUSEPORT, and the kernel gives one of them the connection."""
    with socket.socket() as first, socket.socket() as second:
        for listening in (first, second):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        first.bind(("127.0.0.1", 0))
        second.bind(first.getsockname())
        first.listen()
        second.listen()
        with socket.create_connection(first.getsockname()) as client:
            queued = [listening for listening in (first, second) if real(listening).fill]
            assert [name(listening) for listening in queued] == [real(client).listener]


@pytest.mark.usefixtures("source")
def test_one_that_cannot_even_connect_waits_for_who_should_accept() -> None:
    with server(socket.AF_INET, "127.0.0.1", backlog=0) as listening, contextlib.ExitStack() as stack:
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
            assert (real(client).peer, real(client).listener) == (None, name(listening))


@pytest.mark.usefixtures("source")
def test_a_connection_to_an_end_that_was_closed_has_no_peer() -> None:
    with server(socket.AF_INET, "127.0.0.1") as listening, socket.create_connection(listening.getsockname()) as client:
        accepted, _ = listening.accept()
        accepted.close()
        assert (real(client).peer, real(client).listener) == (None, None)


def test_when_the_last_byte_went_and_came() -> None:
    with server(socket.AF_INET, "127.0.0.1") as listening, socket.create_connection(listening.getsockname()) as client:
        accepted, _ = listening.accept()
        with accepted:
            client.sendall(b"hello")
            accepted.recv(5)
            row = real(client)
            assert row.sent_at == pytest.approx(time.time(), abs=2)
            assert row.received_at == pytest.approx(time.time(), abs=2)
            assert real(listening).received_at is None


def test_how_much_was_sent() -> None:
    with server(socket.AF_INET, "127.0.0.1") as listening, socket.create_connection(listening.getsockname()) as client:
        accepted, _ = listening.accept()
        with accepted:
            client.sendall(b"hello")
            accepted.recv(5)
            assert (real(client).sent_bytes, real(accepted).sent_bytes) == (5, 0)
            assert real(listening).sent_bytes is None


@pytest.mark.usefixtures("source")
def test_bytes_that_do_not_arrive_are_sent_again_and_again() -> None:
    with server(socket.AF_INET, "127.0.0.1") as listening, socket.create_connection(listening.getsockname()) as client:
        accepted, _ = listening.accept()
        with accepted:
            lose_all(accepted)
            client.sendall(b"hello")
            found = [real(client)]
            for pause in patience(pause_s=GLANCE_S):
                if (found[-1].resends or 0) >= 3:
                    break
                time.sleep(pause)
                found.append(real(client))
            assert (found[-1].resends or 0) >= 3
            assert {row.unacknowledged_bytes for row in found} == {5}
            assert [row.resends for row in found] == sorted(row.resends or 0 for row in found)
            assert (real(accepted).fill, real(accepted).unacknowledged_bytes, real(accepted).resends) == (0, 0, 0)


@pytest.mark.usefixtures("source")
def test_bytes_for_which_the_other_end_has_no_room_are_not_sent_again() -> None:
    with server(socket.AF_INET, "127.0.0.1") as listening, socket.create_connection(listening.getsockname()) as client:
        accepted, _ = listening.accept()
        with accepted:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    client.send(bytes(1 << 16))
            row = real(client)
            assert row.unacknowledged_bytes
            assert row.resends == 0
            assert real(accepted).fill


def test_unix_sockets_by_their_peer_and_by_their_listener() -> None:
    one, other = socket.socketpair()
    with one, other:
        other.sendall(b"abc")
        assert (real(one).peer, real(one).fill, real(one).listens) == (name(other), 3, False)
        assert real(one).unread_by_peer == 0
        assert (real(other).unread_by_peer or 0) >= 3
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(f"\0mpmon-{os.getpid()}-{time.time_ns()}")
        listening.listen()
        client.connect(listening.getsockname())
        assert (real(client).peer, real(client).listener) == (None, name(listening))
        assert (real(listening).listens, real(listening).fill) == (True, 1)
        assert (real(listening).path or "").startswith("unix @mpmon-")
        accepted, _ = listening.accept()
        with accepted:
            assert (real(client).peer, real(client).listener) == (name(accepted), None)


OTHER_NETWORK = """
import os, socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
listening = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listening.getsockname())
accepted, _ = listening.accept()
client.sendall(b"hello")
print(*(os.fstat(item.fileno()).st_ino for item in (client, accepted)), flush=True)
sys.stdin.read()
"""


def test_another_network_namespace_is_read_from_its_own_files() -> None:
    command = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", OTHER_NETWORK]
    try:
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    with program:
        assert program.stdout
        said = program.stdout.readline().split()
        if not said:
            pytest.skip("no network namespace may be made here")
        client, accepted = (int(word) for word in said)
        row = SocketTable(Proc(), time.time()).describe(program.pid, f"socket:{accepted}")
        assert (row.peer, row.fill) == (f"socket:{client}", 5)
        assert SocketTable(Proc(), time.time()).describe(os.getpid(), f"socket:{accepted}").peer is None
        program.communicate()
