"""Connections of processes that stand are looked at again: a kernel resends for them, and no thread of theirs runs."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Iterator

import msgspec

from mpmon.model import KernelObject
from mpmon.probes.files import Proc
from mpmon.probes.kernel import KernelLook
from mpmon.session.connections import EVERY_S, Connections
from mpmon.session.look import Look
from tests.builders import blocked, holds
from tests.patience import becomes
from tests.probes.test_sockets import lose_all, name, real, server

LONGEST_S = 30.0


def found(row: KernelObject | None, item: socket.socket, at: float) -> Look:
    """A look at this process, whose main thread waits at a connection, or was awake."""
    pid, kernel = os.getpid(), KernelLook(Proc(), at)
    kernel.handles[pid] = (holds(pid, name(item)),)
    kernel.blocked[pid] = (blocked("recvfrom", *((row.id,) if row else ()), pid=pid),)
    kernel.objects = {row.id: row} if row else {}
    return Look(pid, at, kernel, runs=1, main_call=b"")


@contextlib.contextmanager
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        server(socket.AF_INET, "127.0.0.1") as listening,
        socket.create_connection(listening.getsockname()) as client,
        listening.accept()[0] as accepted,
    ):
        yield client, accepted


def test_what_is_lost_meanwhile_shows() -> None:
    with connection() as (client, accepted):
        now, pid = time.time(), os.getpid()
        looks = {pid: found(real(client), client, now)}
        connections = Connections(Proc(), looks)
        assert not connections.refresh((), now), "nothing is another one than before"
        lose_all(accepted)
        client.sendall(b"hello")
        assert not connections.refresh((), now + EVERY_S / 2), "not yet"
        assert not connections.refresh({pid}, now + EVERY_S), "it runs, and is looked at"
        assert connections.refresh((), now + EVERY_S)
        rounds = itertools.count(2)

        def is_sent_again() -> bool:
            connections.refresh((), now + next(rounds) * EVERY_S)
            return bool(looks[pid].objects[0].resends)

        assert becomes(is_sent_again)
        assert looks[pid].objects[0].unacknowledged_bytes == 5


def test_a_look_that_finds_its_thread_awake_does_not_hide_what_it_waits_on() -> None:
    with connection() as (client, _):
        now, pid = time.time(), os.getpid()
        looks = {pid: found(real(client), client, now)}
        connections = Connections(Proc(), looks)
        connections.refresh((), now)
        looks[pid] = found(None, client, now + 1)
        assert connections.refresh((), now + 1)
        assert [row.id for row in looks[pid].objects] == [name(client)]


def test_what_is_closed_is_forgotten() -> None:
    with connection() as (client, _):
        now, pid = time.time(), os.getpid()
        looks = {pid: found(real(client), client, now)}
        connections = Connections(Proc(), looks)
        connections.refresh((), now)
        closed = found(None, client, now + 1)
        closed.handles = tuple(msgspec.structs.replace(row, object="socket:1") for row in closed.handles)
        looks[pid] = closed
        assert not connections.refresh((), now + 1)
        assert looks[pid].objects == ()
