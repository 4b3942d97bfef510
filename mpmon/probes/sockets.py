"""Sockets by inode: addresses, unread bytes and the other end, from proc_pid_net(5).

The files are those of the network namespace of the process that is asked about.
"""

from __future__ import annotations

import socket
import struct

from mpmon.model import KernelObject
from mpmon.probes.files import Proc

_TCP_LISTEN = "0A"
"""TCP_LISTEN of linux/tcp_states.h."""


class SocketTable:
    """All sockets of the machine, read when first asked for."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._rows: dict[str, _Socket] | None = None
        self._by_ends: dict[tuple[str, str, str], str] = {}

    def describe(self, pid: int, name: str) -> KernelObject:
        """The socket `socket:INODE`, with its peer where that is on this machine."""
        if self._rows is None:
            self._rows = self._read(pid)
        row = self._rows.get(name.partition(":")[2])
        if row is None:
            return KernelObject(id=name, kind="socket")
        inode = self._by_ends.get((row.protocol, row.remote, row.local))
        return KernelObject(
            id=name, kind="socket", path=str(row), fill=row.unread, peer=f"socket:{inode}" if inode else None
        )

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
