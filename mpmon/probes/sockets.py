"""Sockets by inode: addresses, unread bytes and the other end.

For our own network namespace the kernel is queried by sock_diag(7), which tells the most; for another one, and if a
filter forbids that, the files of proc_pid_net(5) are read as the process sees them. The other end of a TCP connection
on this machine is the socket with the same two addresses swapped. Until a connection is accepted, its other end belongs
to no process: then the listening socket is named, whose owner should accept it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from mpmon.model import KernelObject
from mpmon.probes.files import Proc
from mpmon.probes.sock_diag import LISTEN, RESENDS, InetSocket, UnixSocket, end, tcp_sockets, unix_sockets

_ESTABLISHED, _SYN_SENT, _SYN_RECEIVED, _CLOSE_WAIT, _NEW_SYN_RECEIVED = 1, 2, 3, 8, 12
"""linux/tcp_states.h."""

_QUEUED_STATES = frozenset({_ESTABLISHED, _SYN_RECEIVED, _CLOSE_WAIT, _NEW_SYN_RECEIVED})
"""States of the far end of an unaccepted connection; one whose owner closed it is in others."""

_ACCEPTS = 0x10000
"""__SO_ACCEPTCON of linux/net.h, in the flags of /proc/net/unix."""

_Row = TypeVar("_Row", InetSocket, UnixSocket)

_FILE_LIMIT = 1 << 22
"""Most bytes read of /proc/net/tcp: some 25,000 lines."""


class SocketTable:
    """The sockets of each network namespace queried, read once on first use."""

    def __init__(self, proc: Proc, now: float) -> None:
        self._proc, self._now = proc, now
        self._own: str | None = None
        self._namespaces: dict[str, _Namespace] = {}

    def describe(self, pid: int, name: str) -> KernelObject:
        """The socket `socket:INODE` of a process, with its peer if that is on this machine."""
        inode = int(name.partition(":")[2])
        namespace = self._namespace(pid)
        found = namespace.unix.describe(name, inode) or namespace.tcp.describe(name, inode)
        return found or namespace.udp.describe(name, inode) or KernelObject(id=name, kind="socket")

    def _namespace(self, pid: int) -> _Namespace:
        where = self._network(pid) or f"that of {pid}"
        if where not in self._namespaces:
            if self._own is None:
                self._own = self._network("self") or ""
            self._namespaces[where] = _Namespace(self._proc, pid, self._now if where == self._own else None)
        return self._namespaces[where]

    def _network(self, pid: int | str) -> str | None:
        """`net:[4026531833]`: namespaces(7)."""
        try:
            return self._proc.link(pid, "ns", "net")
        except OSError:
            return None


class _Namespace:
    """The sockets of one network namespace, read family by family on demand."""

    def __init__(self, proc: Proc, pid: int, now: float | None) -> None:
        """`now` for our own namespace."""
        self._proc, self._pid, self._now = proc, pid, now
        self._unix: _UnixTable | None = None
        self._tcp: _InetTable | None = None
        self._udp: _InetTable | None = None

    @property
    def unix(self) -> _UnixTable:
        """Unix sockets; looked up first, because there are the fewest."""
        if self._unix is None:
            self._unix = _UnixTable(self._asked(unix_sockets) or self._unix_files())
        return self._unix

    @property
    def tcp(self) -> _InetTable:
        """TCP sockets."""
        if self._tcp is None:
            self._tcp = _InetTable(self._asked(tcp_sockets) or self._inet_files("tcp"), self._now or 0.0)
        return self._tcp

    @property
    def udp(self) -> _InetTable:
        """UDP sockets: always from the files, because hardly anything waits in one."""
        if self._udp is None:
            self._udp = _InetTable(self._inet_files("udp"), 0.0)
        return self._udp

    def _asked(self, question: Callable[[], Iterable[_Row]]) -> list[_Row]:
        try:
            return list(question()) if self._now is not None else []
        except OSError:
            return []

    def _inet_files(self, protocol: str) -> Iterator[InetSocket]:
        for name in (protocol, protocol + "6"):
            for fields in self._lines(name, 10):
                yield _inet_line(protocol, fields)

    def _unix_files(self) -> Iterator[UnixSocket]:
        return map(_unix_line, self._lines("unix", 7))

    def _lines(self, name: str, columns: int) -> Iterator[list[str]]:
        try:
            lines = self._proc.text(self._pid, "net", name, limit=_FILE_LIMIT).splitlines()[1:]
        except OSError:
            return iter(())
        # The last line may be cut at the limit.
        return (fields for line in lines if len(fields := line.split()) >= columns)


class _InetTable:
    """TCP or UDP sockets by inode and by their two ends."""

    def __init__(self, rows: Iterable[InetSocket], now: float) -> None:
        rows = list(rows)
        self._now = now
        self._by_inode = {row.inode: row for row in rows if row.inode}
        self._by_ends = {(row.local, row.remote): row for row in rows}
        self._listening = [row for row in rows if row.state == LISTEN and row.protocol == "tcp"]

    def describe(self, name: str, inode: int) -> KernelObject | None:
        """`None` for a socket that is not in the table."""
        row = self._by_inode.get(inode)
        if row is None:
            return None
        if row.state == LISTEN and row.protocol == "tcp":
            path = f"tcp listening on {_address(row.local)}"
            return KernelObject(id=name, kind="socket", path=path, fill=row.unread, listens=True)
        far = self._by_ends.get((row.remote, row.local))
        queued = _may_be_queued(row, far)
        return KernelObject(
            id=name, kind="socket", path=f"{row.protocol} {_address(row.local)} to {_address(row.remote)}",
            fill=row.unread, peer=_name(far.inode) if far else None, listener=self._listener(row) if queued else None,
            sent_at=self._moment(row.sent_age_s), received_at=self._moment(row.received_age_s),
            acknowledged_at=self._moment(row.acknowledged_age_s),
            sent_bytes=row.sent, unacknowledged_bytes=row.unacknowledged, resends=row.resends,
        )  # fmt: skip

    def _moment(self, age: float | None) -> float | None:
        """To a tenth of a second, so that it stays the same from look to look."""
        return None if age is None else round(self._now - age, 1)

    def _listener(self, row: InetSocket) -> str | None:
        """The only listening socket that this connection leads to: on that very address, else on any. Of several on one address
        (SO_REUSEPORT of socket(7)), the one in which connections are queued.
        """
        if row.remote[:-2] not in (row.local[:-2], _IPV6_LOOPBACK) and not row.remote.startswith(b"\x7f"):
            return None
        there = [other for other in self._listening if other.local[-2:] == row.remote[-2:]]
        found = [other for other in there if other.local == row.remote] or [
            other for other in there if not any(other.local[:-2])
        ]
        if len(found) > 1:
            found = [other for other in found if other.unread]
        return _name(found[0].inode) if len(found) == 1 else None


_IPV6_LOOPBACK = bytes(15) + b"\1"


def _may_be_queued(row: InetSocket, far: InetSocket | None) -> bool:
    """Its far end has no owner yet, or does not exist yet because the queue is full."""
    if far is None:
        return row.protocol == "tcp" and row.state in (_ESTABLISHED, _SYN_SENT)
    return not far.inode and far.state in _QUEUED_STATES


class _UnixTable:
    """Unix sockets by inode."""

    def __init__(self, rows: Iterable[UnixSocket]) -> None:
        self._by_inode = {row.inode: row for row in rows}
        self._listeners = {client: row.inode for row in self._by_inode.values() for client in row.queued if client}

    def describe(self, name: str, inode: int) -> KernelObject | None:
        """`None` for a socket that is not in the table."""
        row = self._by_inode.get(inode)
        if row is None:
            return None
        peer = self._by_inode.get(row.peer)
        is_of_pair = peer is not None and not (row.name or peer.name)
        return KernelObject(
            id=name, kind="socket", path=f"unix {row.name}".strip(), fill=row.unread, peer=_name(row.peer),
            listens=row.state == LISTEN, listener=_name(self._listeners.get(inode, 0)),
            unread_by_peer=row.unread_by_peer if is_of_pair else None,
        )  # fmt: skip


def _name(inode: int) -> str | None:
    return f"socket:{inode}" if inode else None


def _inet_line(protocol: str, fields: list[str]) -> InetSocket:
    """A line of /proc/net/tcp, tcp6, udp or udp6."""
    unsure, _, unread = fields[4].partition(":")
    found = InetSocket(protocol, int(fields[9]), int(fields[3], 16), _end(fields[1]), _end(fields[2]), int(unread, 16))
    if protocol != "tcp" or found.state == LISTEN:
        return found
    resends = int(fields[6], 16) if int(fields[5].partition(":")[0], 16) == RESENDS else 0
    return found._replace(unacknowledged=int(unsure, 16), resends=resends)


def _unix_line(fields: list[str]) -> UnixSocket:
    """A line of /proc/net/unix, which tells neither the peer nor the unread bytes."""
    state = LISTEN if int(fields[3], 16) & _ACCEPTS else _ESTABLISHED
    return UnixSocket(int(fields[6]), state, fields[7] if len(fields) > 7 else "", 0, None)


def _end(text: str) -> bytes:
    """`0100007F:1F90`: words of the address as the machine holds them, and the port."""
    host, _, port = text.partition(":")
    words = (int(host[at : at + 8], 16) for at in range(0, len(host), 8))
    return end(struct.pack(f"={len(host) // 8}I", *words), bytes.fromhex(port))


def _address(place: bytes) -> str:
    """`127.0.0.1:8080` or `[::1]:8080`."""
    host, port = place[:-2], int.from_bytes(place[-2:], "big")
    if len(host) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, host)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, host)}]:{port}"
