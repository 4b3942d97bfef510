"""Every socket of our own network namespace, with one query to the kernel per family: sock_diag(7).

It tells what the files of proc_pid_net(5) do not: the peer of a Unix socket, which connections wait to be accepted, how
long ago the last byte of a TCP connection was sent and received, how many bytes were sent, and how often the same were
retransmitted. The job is not involved. Layouts: linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h,
linux/unix_diag.h, linux/tcp.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

LISTEN = 10
"""TCP_LISTEN of linux/tcp_states.h, used for Unix sockets too."""

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port."""

_TIME_WAIT, _CLOSE = 6, 7
_STATES = 0xFFFFFFFF & ~(1 << _TIME_WAIT | 1 << _CLOSE)
"""States that wake nobody: a socket without a connection, and what is left of one that both ends closed."""

_INFO = 2
_INET_QUESTION = struct.Struct("=BBBxI48x")
"""struct inet_diag_req_v2: family, protocol, wanted attributes, states."""
_INET_MESSAGE = struct.Struct("=BBBB4s16s16s12x4xII4xI")
"""struct inet_diag_msg: family, state, timer, resends or probes, ports, source, destination, unread bytes or queued connections,
bytes without acknowledgement, inode.
"""
RESENDS = 1
"""The timers of a connection that end in retransmitting what was not acknowledged (inet_sk_diag_fill of
net/ipv4/inet_diag.c, get_tcp4_sock of net/ipv4/tcp_ipv4.c). Others probe whether a peer without room has some by now,
or is alive.
"""
_SENT_AT, _RECEIVED_AT, _ACKNOWLEDGED_AT, _SENT = 44, 52, 56, 200
"""tcpi_last_data_sent, tcpi_last_data_recv and tcpi_last_ack_recv of struct tcp_info, milliseconds; tcpi_bytes_sent, since
Linux 4.19.
"""

_NAME, _PEER, _ICONS, _RQLEN = 0, 2, 3, 4
_UNIX_QUESTION = struct.pack(
    "=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4, 0xFFFFFFFF, 0xFFFFFFFF
)
"""struct unix_diag_req, asking for the name, the peer, the clients in the queue of a listener, and the unread bytes."""
_UNIX_MESSAGE = struct.Struct("=BBBxI8x")
"""struct unix_diag_msg: family, type, state, inode."""

_MAPPED = b"\0" * 10 + b"\xff\xff"
"""The prefix of an IPv4-mapped IPv6 address: RFC 4291, 2.5.5.2."""

_ANSWER_S, _MOST_ANSWERS = 0.5, 512
"""Time limit for the kernel's answer, and most packets read."""


class InetSocket(NamedTuple):
    """One socket of TCP or UDP. An end is the address, four or sixteen bytes, and the port, two, in network order."""

    protocol: str
    inode: int
    """0 until the connection is accepted."""
    state: int
    local: bytes
    remote: bytes
    unread: int
    """Bytes; for a listening socket the connections that wait to be accepted."""
    sent_age_s: float | None = None
    received_age_s: float | None = None
    acknowledged_age_s: float | None = None
    sent: int | None = None
    """Bytes sent in total."""
    unacknowledged: int | None = None
    """Bytes."""
    resends: int | None = None
    """How often the first of them were retransmitted; 0 if another timer runs, or none."""


class UnixSocket(NamedTuple):
    """One Unix socket."""

    inode: int
    state: int
    name: str
    peer: int
    """Inode of the peer; 0 for none, and until the connection is accepted."""
    unread: int | None
    """As for `InetSocket`; `None` if only the files could be read."""
    queued: tuple[int, ...] = ()
    """For a listening socket: inodes of the clients that wait to be accepted."""
    unread_by_peer: int | None = None
    """Bytes that lie in the peer's queue, with what the kernel needs to keep them; `None` for a listening socket."""


def tcp_sockets() -> Iterator[InetSocket]:
    """Every TCP socket of our network namespace, IPv4 and IPv6.

    Raises:
        OSError: the kernel or a filter refuses, or does not answer in time.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        for body in _answers(_INET_QUESTION.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _STATES)):
            yield _tcp(body)


def unix_sockets() -> Iterator[UnixSocket]:
    """Every Unix socket of our network namespace.

    Raises:
        OSError: as `tcp_sockets`.
    """
    for body in _answers(_UNIX_QUESTION):
        _, _, state, inode = _UNIX_MESSAGE.unpack_from(body)
        found = dict(_attributes(body, _UNIX_MESSAGE.size))
        name = found.get(_NAME, b"")
        queued, lengths = found.get(_ICONS, b""), found.get(_RQLEN, b"")
        yield UnixSocket(
            inode=inode, state=state, name=_unix_name(name), peer=_word(found.get(_PEER)),
            unread=_word(lengths), queued=struct.unpack(f"={len(queued) // 4}I", queued),
            unread_by_peer=_word(lengths[4:]) if state != LISTEN and len(lengths) == 8 else None,
        )  # fmt: skip


def end(address: bytes, port: bytes) -> bytes:
    """An end of a TCP connection; one IPv4 address has one form."""
    return (address[12:] if len(address) == 16 and address.startswith(_MAPPED) else address) + port


def _tcp(body: bytes) -> InetSocket:
    family, state, timer, again, ports, source, destination, unread, unsure, inode = _INET_MESSAGE.unpack_from(body)
    size = 4 if family == socket.AF_INET else 16
    info = dict(_attributes(body, _INET_MESSAGE.size)).get(_INFO, b"") if state != LISTEN else b""
    local, remote = end(source[:size], ports[:2]), end(destination[:size], ports[2:])
    total = struct.unpack_from("=Q", info, _SENT)[0] if len(info) >= _SENT + 8 else None
    pending = (None, None) if state == LISTEN else (unsure, again if timer == RESENDS else 0)
    return InetSocket("tcp", inode, state, local, remote, unread, *_ages(info), total, *pending)


def _ages(info: bytes) -> tuple[float | None, float | None, float | None]:
    """A connection without traffic counts from when it was made (tcp_finish_connect of net/ipv4)."""
    if len(info) < _ACKNOWLEDGED_AT + 4:
        return None, None, None
    return _age(info, _SENT_AT), _age(info, _RECEIVED_AT), _age(info, _ACKNOWLEDGED_AT)


def _age(info: bytes, at: int) -> float:
    return struct.unpack_from("=I", info, at)[0] / 1e3


def _unix_name(name: bytes) -> str:
    """unix(7): a path, or after a zero byte an abstract name, in which zero bytes are written as @."""
    shown = name.replace(b"\0", b"@") if name.startswith(b"\0") else name.rstrip(b"\0")
    return shown.decode("utf-8", "replace")


def _word(text: bytes | None) -> int:
    return struct.unpack_from("=I", text)[0] if text else 0


def _answers(question: bytes) -> Iterator[bytes]:
    """The bodies of all messages the kernel answers with."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(_ANSWER_S)
        netlink.send(_HEADER.pack(_HEADER.size + len(question), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + question)
        for _ in range(_MOST_ANSWERS):
            text, at = netlink.recv(1 << 16), 0
            while at + _HEADER.size <= len(text):
                length, kind, *_ = _HEADER.unpack_from(text, at)
                if kind == _DONE or length < _HEADER.size:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", text, at + _HEADER.size)[0], "sock_diag refused")
                yield text[at + _HEADER.size : at + length]
                at += (length + 3) & ~3


def _attributes(text: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """rtnetlink(7): length, type, value, each padded to four bytes."""
    while at + 4 <= len(text):
        length, kind = struct.unpack_from("=HH", text, at)
        if length < 4:
            return
        yield kind, text[at + 4 : at + length]
        at += (length + 3) & ~3
