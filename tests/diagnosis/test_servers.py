"""Servers: whose part a connection is that its thread has left, or that nobody has accepted; requests in processes of their own;
and servers that are well although their clients wait.
"""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import JoinTarget, Row
from tests.builders import (
    ROOT,
    START,
    blocked,
    holds,
    kernel_object,
    process,
    running,
    snapshot,
    stack,
    thread,
    watched,
)

SERVER, CLIENT, OTHER, REQUEST = 4110, 4121, 4122, 4130
LISTENING = "socket:1"
ADDRESS = "127.0.0.1:8080"
FUTEX_WAIT_PRIVATE = 0x80

JOINS = ("multiprocessing/process.py:149 BaseProcess.join", "job.py:9 <module>")
SERVES_FOREVER = ("lib/selectors.py:415 select", "lib/socketserver.py:232 BaseServer.serve_forever", "serve.py:4 main")
READS = ("lib/socket.py:706 SocketIO.readinto", "serve.py:20 handle")
SERVES_HERE = ("lib/socketserver.py:348 BaseServer.process_request", "lib/socketserver.py:238 BaseServer.serve_forever")
FORKED = ("lib/socketserver.py:624 ForkingMixIn.process_request", "lib/socketserver.py:238 BaseServer.serve_forever")

Rows = tuple[Row, ...]


def main(*frames: str, call: str = "wait4", on: str = f"process:{CLIENT}") -> Rows:
    return (process(), thread(), stack("main", *frames), blocked(call, on, ran_at=0.0), kernel_object(on))


def connection(pid: int, number: int, *, server: int = SERVER, accepted: bool = True) -> Rows:
    """From a client's `socket:NUMBER0` to the server's `socket:NUMBER1`."""
    near, far, port = f"socket:{number}0", f"socket:{number}1", 40000 + number
    there = (
        kernel_object(near, peer=far, path=f"tcp 127.0.0.1:{port} to {ADDRESS}"), holds(server, far),
        kernel_object(far, peer=near, path=f"tcp {ADDRESS} to 127.0.0.1:{port}"),
    )  # fmt: skip
    queued = (kernel_object(near, listener=LISTENING, path=f"tcp 127.0.0.1:{port} to {ADDRESS}"),)
    return (holds(pid, near), *(there if accepted else queued))


def client(pid: int, number: int, *, call: str = "recvfrom") -> Rows:
    """A child that waits for an answer, or for room in the connection."""
    return (
        process(pid, parent=ROOT), thread(pid), stack("main", f"train.py:{number} train", pid=pid),
        blocked(call, f"socket:{number}0", pid=pid, ran_at=0.0, writes=call == "sendto"),
    )  # fmt: skip


def computes(pid: int, *, wakes_at: float = START + 60) -> Rows:
    """A child that has not come to ask yet."""
    return (
        process(pid, parent=ROOT), thread(pid), stack("main", "train.py:50 compute", pid=pid),
        blocked("clock_nanosleep", pid=pid, ran_at=0.0, wakes_at=wakes_at),
    )  # fmt: skip


def accepts(pid: int = SERVER, tid: int | None = None) -> Rows:
    """The thread of a server that waits for connections."""
    return (
        thread(pid, tid), stack("accepts", "serve.py:9 run", pid=pid, tid=tid),
        blocked("accept4", LISTENING, pid=pid, tid=tid, ran_at=0.0),
        kernel_object(LISTENING, listens=True, fill=0, path=f"tcp listening on {ADDRESS}"), holds(pid, LISTENING),
    )  # fmt: skip


def handles(number: int, pid: int = SERVER, *frames: str) -> Rows:
    """A thread of a server that waits for what comes over that connection."""
    tid = pid + 50 + number
    return (
        thread(pid, tid), stack(f"handler-{number}", *(frames or ("serve.py:20 handle",)), pid=pid, tid=tid),
        blocked("recvfrom", f"socket:{number}1", pid=pid, tid=tid, ran_at=0.0),
    )  # fmt: skip


def said(*parts: Rows) -> Diagnosis:
    return watched(snapshot(*{repr(row): row for part in parts for row in part}.values()))


def suspects(found: Diagnosis) -> list[tuple[int, str | None]]:
    return [(suspect.pid, suspect.thread) for suspect in found.findings[0].suspects]


# A thread for each connection

TWO_CLIENTS = (main(*JOINS), connection(CLIENT, 2), client(CLIENT, 2), connection(OTHER, 3))
SERVED_BY = (process(SERVER, parent=ROOT), *accepts())


def test_the_thread_of_a_connection_has_died() -> None:
    found = said(*TWO_CLIENTS, client(OTHER, 3), SERVED_BY, handles(3))
    assert (found.findings[0].cause, suspects(found)) == ("thread-dead", [(SERVER, "accepts")])
    assert f"(pid {CLIENT}) waits at train.py:2 in train" in found.findings[0].summary


def test_a_server_in_a_thread_of_the_main_program() -> None:
    served = (connection(CLIENT, 2, server=ROOT), connection(OTHER, 3, server=ROOT), accepts(ROOT, ROOT + 5))
    found = said(main(*JOINS), client(CLIENT, 2), client(OTHER, 3), *served, handles(3, ROOT))
    assert (found.findings[0].cause, suspects(found)) == ("thread-dead", [(ROOT, "accepts")])


def test_a_server_that_gathers_its_clients_waits_for_the_last_one() -> None:
    found = said(*TWO_CLIENTS, client(OTHER, 3), SERVED_BY)
    assert found.findings[0].cause == "io-wait"


@pytest.mark.parametrize("own", [True, False], ids=["broadcasts", "publishes"])
def test_the_thread_of_another_connection_may_pass_on_what_comes(*, own: bool) -> None:
    """A barrier's "go" to all, a message to those who subscribed and whose threads have ended."""
    threads = (*handles(3), *(handles(2) if own else ()))
    assert said(*TWO_CLIENTS, computes(OTHER), SERVED_BY, threads).verdict is not Verdict.HUNG
    assert said(*TWO_CLIENTS, computes(OTHER, wakes_at=START + 9000), SERVED_BY, threads).verdict is Verdict.HUNG


def test_nobody_else_helps_where_the_thread_of_the_connection_is_stuck() -> None:
    stuck = (
        thread(SERVER, SERVER + 52), stack("handler-2", "serve.py:30 reload", pid=SERVER, tid=SERVER + 52),
        blocked("clock_nanosleep", pid=SERVER, tid=SERVER + 52, ran_at=0.0, wakes_at=START + 9000),
    )  # fmt: skip
    found = said(*TWO_CLIENTS, computes(OTHER), SERVED_BY, handles(3), stuck)
    assert suspects(found) == [(SERVER, "handler-2")]


def test_a_server_that_no_longer_accepts_is_to_blame_for_what_lies_in_its_queue() -> None:
    """It waits for the end of its last session, of a client that waits on a new connection."""
    leaves = (
        process(SERVER, parent=ROOT), thread(SERVER), stack("main", "lib/threading.py:1119 Thread.join", "serve.py:67 drain",
              pid=SERVER), blocked("futex", pid=SERVER, ran_at=0.0), holds(SERVER, LISTENING),
        JoinTarget(pid=SERVER, tid=SERVER, kind="thread", by_tid=SERVER + 53),
        kernel_object(LISTENING, listens=True, fill=1, path=f"tcp listening on {ADDRESS}"),
    )  # fmt: skip
    waits = (client(CLIENT, 2), connection(CLIENT, 2, accepted=False), connection(CLIENT, 3))
    found = said(main(*JOINS), *waits, leaves, handles(3))
    assert suspects(found) == [(SERVER, "MainThread")]


# One connection after the other

IN_TURN = (
    process(SERVER, parent=ROOT), thread(SERVER), stack("main", *READS, *SERVES_HERE, pid=SERVER),
    blocked("recvfrom", "socket:31", pid=SERVER, ran_at=0.0), holds(SERVER, LISTENING),
    thread(SERVER, SERVER + 1), stack("beat", "serve.py:70 beat", pid=SERVER, tid=SERVER + 1),
    blocked("clock_nanosleep", pid=SERVER, tid=SERVER + 1, ran_at=0.0, wakes_at=START + 9000),
)  # fmt: skip


def joins_first(pid: int, other: int) -> Rows:
    """A child that waits for the end of another one."""
    return (
        process(pid, parent=ROOT), thread(pid), stack("main", *JOINS, pid=pid),
        blocked("wait4", f"process:{other}", pid=pid, ran_at=0.0), kernel_object(f"process:{other}"),
    )  # fmt: skip


def test_a_writer_that_was_not_accepted_waits_for_the_one_who_is_served() -> None:
    writer = client(CLIENT, 2, call="sendto")
    waits = (*connection(CLIENT, 2, accepted=False), *connection(OTHER, 3), *joins_first(OTHER, CLIENT))
    found = said(main(*JOINS), writer, waits, IN_TURN[:5])
    assert (found.findings[0].cause, suspects(found)) == ("pipe-full", [(SERVER, "MainThread")])


def test_a_server_that_asks_itself() -> None:
    """Its handler waits for an answer of the very loop that would accept the connection."""
    own = (
        process(), thread(), stack("main", "lib/socket.py:706 SocketIO.readinto", "serve.py:7 answer", *SERVES_HERE),
        blocked("recvfrom", "socket:20", ran_at=0.0), holds(ROOT, LISTENING),
    )  # fmt: skip
    found = said(own, connection(ROOT, 2, accepted=False))
    assert (found.findings[0].cause, suspects(found)) == ("self-deadlock", [(ROOT, "MainThread")])


def test_who_can_wake_itself_does_not_wait_for_itself() -> None:
    """A client of a server of others watches a pair of sockets of its own as well, by which its handlers wake it."""
    pair = (kernel_object("socket:5", peer="socket:6", path="unix"), holds(ROOT, "socket:5"), holds(ROOT, "socket:6"))
    server = kernel_object("socket:7", peer="socket:8", path="tcp 10.0.0.1:40000 to 10.0.0.2:80")
    watches = blocked("epoll_wait", "socket:7", "socket:5", ran_at=0.0)
    found = said(
        (process(), thread(), stack("main", "lib/selectors.py:415 select", "job.py:9 main"), watches, server, *pair)
    )
    assert [finding.cause for finding in found.findings] == ["io-wait"]


def test_the_child_of_a_forking_server_accepts_nothing() -> None:
    waits = (
        process(), thread(), stack("main", *SERVES_FOREVER), blocked("poll", LISTENING, ran_at=0.0),
        kernel_object(LISTENING, listens=True, fill=0, path=f"tcp listening on {ADDRESS}"), holds(ROOT, LISTENING),
    )  # fmt: skip
    child = (
        process(REQUEST, parent=ROOT), thread(REQUEST), stack("main", *READS, *FORKED, pid=REQUEST),
        blocked("recvfrom", "socket:31", pid=REQUEST, ran_at=0.0), holds(REQUEST, LISTENING),
    )  # fmt: skip
    found = said(waits, child, client(CLIENT, 2), connection(CLIENT, 2, accepted=False), connection(OTHER, 3))
    assert found.verdict is not Verdict.HUNG


# A process for each request

IDLE = (
    process(), thread(), stack("main", *SERVES_FOREVER), blocked("poll", LISTENING, ran_at=0.0),
    kernel_object(LISTENING, listens=True, fill=0, path=f"tcp listening on {ADDRESS}"), holds(ROOT, LISTENING),
)  # fmt: skip
IN_FORWARD = ("model.py:37 forward", "serve.py:27 handle", *FORKED)


OPENMP = (0x70, FUTEX_WAIT_PRIVATE, 32, 0, 0, 0)
"""The operands of a futex call as libgomp makes it."""


def request(*frames: str, on: str = f"futex:{REQUEST}:0x70", args: tuple[int, ...] = ()) -> Rows:
    """A process that a server forked for one request."""
    call = "futex" if on.startswith("futex") else "recvfrom"
    return (
        process(REQUEST, parent=ROOT, forked=True), thread(REQUEST), stack("main", *frames, pid=REQUEST),
        blocked(call, on, pid=REQUEST, ran_at=0.0, args=args), kernel_object(on, path=f"tcp {ADDRESS} to 10.0.0.7:5000"),
    )  # fmt: skip


def test_a_request_waits_for_threads_that_no_fork_copies() -> None:
    found = said(IDLE, request(*IN_FORWARD, args=OPENMP))
    assert (found.findings[0].cause, suspects(found)) == ("fork-openmp", [(REQUEST, "MainThread")])


def test_whoever_asked_is_told_of() -> None:
    asks = (*client(CLIENT, 2), *connection(CLIENT, 2, server=REQUEST))
    found = said(IDLE, request(*IN_FORWARD, args=OPENMP), asks)
    assert [waiter.pid for waiter in found.findings[0].waiters] == [CLIENT]


CALM: dict[str, Rows] = {
    "a connection that is kept open": request(*READS, *FORKED, on="socket:91"),
    "a request of the same process may wake it": (
        thread(ROOT, ROOT + 5), blocked("futex", f"futex:{ROOT}:0x70", tid=ROOT + 5, ran_at=0.0),
        stack("poll", "lib/threading.py:327 Condition.wait", "serve.py:40 next_event",
              "lib/socketserver.py:691 ThreadingMixIn.process_request_thread", tid=ROOT + 5),
    ),
    "a child that does what the server tells it to": request(
        "lib/threading.py:327 Condition.wait", "lib/threading.py:629 Event.wait", "job.py:3 until_told",
        "multiprocessing/process.py:314 BaseProcess._bootstrap", *FORKED,
    ),
    "a request that computes": (*request(*IN_FORWARD), running(REQUEST)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALM)
def test_a_server_that_idles_by_right(name: str) -> None:
    assert said(IDLE, CALM[name]).verdict is Verdict.HEALTHY


LOOP = SERVER + 5


def served_in_c(*watches: str) -> Diagnosis:
    """A server whose main thread is in a futex in C, beside a thread without Python that waits for events; its client
    waits for an answer.
    """
    futex = f"futex:{SERVER}:0x70"
    server = (
        process(SERVER, parent=ROOT, forked=False, threads=2), thread(SERVER), thread(SERVER, LOOP),
        stack("main", "flight_server.py:9 serve", pid=SERVER), kernel_object(futex),
        blocked("futex", futex, pid=SERVER, ran_at=0.0), blocked("epoll_wait", *watches, pid=SERVER, tid=LOOP, ran_at=0.0),
        kernel_object(LISTENING, listens=True, fill=0, path=f"tcp listening on {ADDRESS}"), holds(SERVER, LISTENING),
    )  # fmt: skip
    return watched(snapshot(*main(*JOINS), *server, *connection(CLIENT, 1), *client(CLIENT, 1)))


def test_the_main_thread_of_a_server_in_c_waits_for_requests_that_other_threads_take() -> None:
    found = served_in_c("socket:11", LISTENING)
    assert found.verdict is not Verdict.HUNG
    assert "waiting for requests" in next(row for row in found.processes if row.pid == SERVER).does


def test_a_library_in_c_that_no_longer_takes_connections_only_waits_for_those_it_has() -> None:
    found = served_in_c("socket:11")
    assert found.verdict is Verdict.HUNG
    assert {row.pid for row in found.findings[0].suspects} <= {SERVER, CLIENT}
