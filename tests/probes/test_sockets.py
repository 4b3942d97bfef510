"""Sockets by inode, with addresses and the other end."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from mpmon.model import KernelObject
from mpmon.probes.files import Proc
from mpmon.probes.sockets import SocketTable

pytestmark = pytest.mark.skipif(
    sys.byteorder != "little", reason="the recorded addresses are of a little-endian machine"
)


def described(proc: Proc, inode: int, pid: int = 4100) -> KernelObject:
    return SocketTable(proc).describe(pid, f"socket:{inode}")


def test_both_ends_of_a_connection_on_this_machine(recorded: Proc) -> None:
    assert described(recorded, 2001) == KernelObject(
        id="socket:2001", kind="socket", path="tcp 127.0.0.1:29001 to 127.0.0.1:50000", fill=12, peer="socket:2002"
    )
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


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_real_sockets(family: socket.AddressFamily, host: str) -> None:
    with socket.socket(family) as server:
        try:
            server.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} here")
        server.listen()
        with socket.create_connection((host, server.getsockname()[1])) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(b"hello")
                row = described(Proc(), os.fstat(accepted.fileno()).st_ino, os.getpid())
                assert row.fill == 5
                assert row.peer == f"socket:{os.fstat(client.fileno()).st_ino}"
