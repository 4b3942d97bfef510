"""Sockets by inode: addresses, unread bytes and the other end, from proc_pid_net(5) and sock_diag(7).

The files are those of the network namespace of the process that is asked about; the peers of Unix sockets, which are not
in any file, come from the kernel's socket diagnosis and only for our own namespace.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from mpmon.model import KernelObject
from mpmon.probes.files import Proc

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_PEER, _QUEUES = 2, 4
_HEADER = struct.Struct("=IHHII")
_MESSAGE_SIZE = 16
"""linux/netlink.h, linux/sock_diag.h, linux/unix_diag.h: struct nlmsghdr, sizeof(struct unix_diag_msg), attributes."""

_SHOW_PEER_AND_QUEUES = 0x04 | 0x10
_UNIX_QUESTION = _HEADER.pack(16 + 24, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + struct.pack(
    "=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_PEER_AND_QUEUES, 0xFFFFFFFF, 0xFFFFFFFF
)

_ANSWER_S, _MOST_ANSWERS = 0.5, 1024
"""How long, and for how many packets, the kernel is listened to."""

_TCP_LISTEN = "0A"
"""TCP_LISTEN of linux/tcp_states.h."""


class SocketTable:
    """All sockets of the machine, read when first asked for."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._rows: dict[str, _Socket] | None = None
        self._by_ends: dict[tuple[str, str, str], str] = {}
        self._peers: dict[str, tuple[str, int]] | None = None

    def describe(self, pid: int, name: str) -> KernelObject:
        """The socket `socket:INODE`, with its peer where that is on this machine."""
        if self._rows is None:
            self._rows = self._read(pid)
        row = self._rows.get(name.partition(":")[2])
        if row is None:
            return KernelObject(id=name, kind="socket")
        if row.protocol == "unix":
            return self._describe_unix(name, row)
        inode = self._by_ends.get((row.protocol, row.remote, row.local))
        return KernelObject(
            id=name, kind="socket", path=str(row), fill=row.unread, peer=f"socket:{inode}" if inode else None
        )

    def _describe_unix(self, name: str, row: _Socket) -> KernelObject:
        if self._peers is None:
            self._peers = unix_peers() if self._proc.root == "/proc" else {}
        peer, unread = self._peers.get(row.inode, ("", None))
        return KernelObject(id=name, kind="socket", path=str(row), fill=unread, peer=f"socket:{peer}" if peer else None)

    def _read(self, pid: int) -> dict[str, _Socket]:
        rows: dict[str, _Socket] = {}
        for protocol in ("tcp", "tcp6", "udp", "udp6"):
            for line in self._lines(pid, protocol):
                row = _Socket(protocol, line.split())
                rows[row.inode] = row
                self._by_ends[row.protocol, row.local, row.remote] = row.inode
        for line in self._lines(pid, "unix"):
            fields = line.split()
            rows[fields[6]] = _Socket.unix(fields)
        return rows

    def _lines(self, pid: int, name: str) -> list[str]:
        try:
            return self._proc.text(pid, "net", name, limit=1 << 22).splitlines()[1:]
        except OSError:
            return []


class _Socket:
    """One line of /proc/net/tcp and its like."""

    def __init__(self, protocol: str, fields: list[str]) -> None:
        self.protocol = protocol[:3]
        self.inode = fields[9]
        self.local, self.remote = _address(fields[1]), _address(fields[2])
        self.unread: int | None = int(fields[4].partition(":")[2], 16)
        self.listens = protocol.startswith("tcp") and fields[3] == _TCP_LISTEN

    @classmethod
    def unix(cls, fields: list[str]) -> _Socket:
        """A line of /proc/net/unix, which tells neither the peer nor what is unread."""
        row = cls.__new__(cls)
        row.protocol, row.inode = "unix", fields[6]
        row.local, row.remote = (fields[7] if len(fields) > 7 else ""), ""
        row.unread, row.listens = None, False
        return row

    def __str__(self) -> str:
        if self.protocol == "unix":
            return f"unix {self.local}".strip()
        if self.listens:
            return f"{self.protocol} listening on {self.local}"
        return f"{self.protocol} {self.local} to {self.remote}"


def _address(text: str) -> str:
    """`0100007F:1F90` to `127.0.0.1:8080`; an IPv4 address in IPv6 clothes is shown as IPv4."""
    host, _, port = text.partition(":")
    words = struct.pack(f"={len(host) // 8}I", *(int(host[at : at + 8], 16) for at in range(0, len(host), 8)))
    if len(words) == 16 and words[:12] == b"\0" * 10 + b"\xff\xff":
        words = words[12:]
    family = socket.AF_INET if len(words) == 4 else socket.AF_INET6
    name = socket.inet_ntop(family, words)
    return f"{name}:{int(port, 16)}" if family == socket.AF_INET else f"[{name}]:{int(port, 16)}"


def unix_peers() -> dict[str, tuple[str, int]]:
    """Peer inode and unread bytes of every Unix socket of our network namespace, by inode.

    sock_diag(7) with UDIAG_SHOW_PEER and UDIAG_SHOW_RQLEN (linux/unix_diag.h); a question to the kernel, not to the job.
    Empty where the kernel or a filter refuses.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(_ANSWER_S)
            netlink.send(_UNIX_QUESTION)
            return dict(_answers(netlink))
    except OSError:
        return {}


def _answers(netlink: socket.socket) -> Iterator[tuple[str, tuple[str, int]]]:
    for _ in range(_MOST_ANSWERS):
        text = netlink.recv(1 << 16)
        at = 0
        while at + _HEADER.size <= len(text):
            length, kind, *_ = _HEADER.unpack_from(text, at)
            if kind in (_NLMSG_ERROR, _NLMSG_DONE) or length < _HEADER.size:
                return
            body = text[at + _HEADER.size : at + length]
            inode = struct.unpack_from("=I", body, 4)[0]
            attributes = dict(_attributes(body[_MESSAGE_SIZE:]))
            peer = struct.unpack("=I", attributes[_PEER])[0] if _PEER in attributes else 0
            unread = struct.unpack_from("=I", attributes[_QUEUES])[0] if _QUEUES in attributes else 0
            yield str(inode), (str(peer) if peer else "", unread)
            at += (length + 3) & ~3


def _attributes(text: bytes) -> Iterator[tuple[int, bytes]]:
    """rtnetlink(7): length, type, value, each padded to four bytes."""
    at = 0
    while at + 4 <= len(text):
        length, kind = struct.unpack_from("=HH", text, at)
        if length < 4:
            return
        yield kind, text[at + 4 : at + length]
        at += (length + 3) & ~3
