"""Who could answer on a connection: threads of the process at its other end, told by kernel and frames."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.edges import node
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject, Row
from tests.builders import ROOT, blocked, history, holds, kernel_object, process, snapshot, stack

SERVER, OTHER, CHILD = 5000, 5001, 5002
NEAR, FAR, LISTENING = "socket:1", "socket:2", "socket:3"
TO_SERVER = "tcp 127.0.0.1:40000 to 127.0.0.1:8080"

CLIENT = (
    process(), stack("main", "lib/socket.py:718 SocketIO.readinto", "train.py:7 main"), blocked("recvfrom", NEAR),
    kernel_object(NEAR, peer=FAR, path=TO_SERVER), holds(ROOT, NEAR), process(SERVER, parent=ROOT), holds(SERVER, FAR),
    holds(SERVER, LISTENING), kernel_object(LISTENING, listens=True, fill=0, path="tcp listening on 127.0.0.1:8080"),
)  # fmt: skip
"""Waits for an answer of the server."""

SERVES_FOREVER = ("lib/selectors.py:415 select", "lib/socketserver.py:232 BaseServer.serve_forever", "serve.py:3 main")
SERVES_ONE = ("lib/socketserver.py:691 ThreadingMixIn.process_request_thread", "lib/threading.py:982 Thread.run")


def thread(
    number: int, *frames: str, call: str = "clock_nanosleep", on: str = "", pid: int = SERVER
) -> tuple[Row, ...]:
    """Thread `pid + number` of a process; 0 is the main thread."""
    name = "main" if number == 0 else f"thread {number}"
    names = (on,) if on else ()
    return stack(name, *frames, pid=pid, tid=pid + number), blocked(call, *names, pid=pid, tid=pid + number)


def job(*rows: Row) -> JobState:
    now = snapshot(*rows)
    return JobState(history(now), now)


def awaited(*parts: tuple[Row, ...], by: ThreadKey = (ROOT, ROOT)) -> set[object]:
    """Whom a thread waits for: numbers of the server's threads, keys of others."""
    edge = node(job(*(row for part in parts for row in part)), by).edge
    assert edge is not None
    return {key[1] - SERVER if isinstance(key, tuple) and key[0] == SERVER else key for key in edge.targets}


SLEEPS = "serve.py:20 answer"

SERVERS: dict[str, tuple[set[object], tuple[tuple[Row, ...], ...]]] = {
    "a server without threads": ({0}, (thread(0, SLEEPS),)),
    "the thread of a request": (
        {1},
        (thread(0, *SERVES_FOREVER, on=LISTENING), thread(1, SLEEPS, *SERVES_ONE), thread(2, "beat.py:3 beat")),
    ),
    "any thread of a request": ({1, 2}, (
        thread(0, *SERVES_FOREVER), thread(1, SLEEPS, *SERVES_ONE), thread(2, SLEEPS, *SERVES_ONE),
    )),
    "not the thread of another request": ({1}, (
        thread(0, *SERVES_FOREVER), thread(1, SLEEPS, *SERVES_ONE),
        thread(2, "lib/socket.py:718 readinto", "serve.py:30 read", *SERVES_ONE, call="recvfrom", on="socket:9"),
        (kernel_object("socket:9", peer="socket:10", path="tcp 127.0.0.1:8080 to 127.0.0.1:40001"),),
    )),
    "whoever the main thread gave it to": ({1}, (thread(0, "serve.py:9 main", call="accept4", on=LISTENING), thread(1, SLEEPS))),
    "not a main thread that put its server into the background": ({2}, (
        thread(0, "serve.py:9 main"), thread(1, "serve.py:12 loop", call="accept4", on=LISTENING), thread(2, SLEEPS),
    )),
    "the main thread rather than its helpers": ({0}, (thread(0, SLEEPS), thread(1, "beat.py:3 beat"))),
    "the main thread that reads this very connection": (
        {0},
        (thread(0, "serve.py:9 main", call="recvfrom", on=FAR), thread(1, "beat.py:3 beat")),
    ),
    "one that watches many connections, and any that works": ({0, 1}, (
        (stack("main", "serve.py:9 main", pid=SERVER), blocked("poll", FAR, "socket:9", pid=SERVER)), thread(1, SLEEPS),
    )),
    "a stopped process": ({0}, (
        (stack("main", *SERVES_FOREVER, pid=SERVER), blocked("poll", pid=SERVER, state="T")), thread(1, SLEEPS, *SERVES_ONE),
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", SERVERS)
def test_who_serves(name: str) -> None:
    expected, parts = SERVERS[name]
    assert awaited(CLIENT, *parts) == expected


def test_a_connection_nobody_accepted_waits_for_who_should() -> None:
    queued: tuple[Row, ...] = tuple(
        kernel_object(NEAR, listener=LISTENING, path=TO_SERVER)
        if isinstance(row, KernelObject) and row.id == NEAR
        else row
        for row in CLIENT
        if row != holds(SERVER, FAR)
    )
    server = thread(0, SLEEPS)
    assert awaited(queued, server) == {0}
    edge = node(job(*queued, *server), (ROOT, ROOT)).edge
    assert edge is not None
    assert edge.evidence == f"{TO_SERVER}: not accepted yet; it is in the accept queue of {LISTENING}"


def test_who_reads_a_connection_that_it_accepted_serves_and_not_the_parent_that_opened_the_socket_for_it() -> None:
    rows = (
        process(), process(SERVER, parent=ROOT), process(OTHER, parent=ROOT), blocked("wait4", f"process:{SERVER}"),
        stack("main", "serve.py:40 main"), holds(ROOT, LISTENING), holds(SERVER, LISTENING), holds(SERVER, FAR),
        kernel_object(LISTENING, listens=True, fill=1, path="tcp listening on 127.0.0.1:8080"),
        kernel_object(FAR, peer="socket:9", path="tcp 127.0.0.1:8080 to 127.0.0.1:40001"),
        stack("main", "ask.py:7 ask", pid=OTHER), blocked("recvfrom", NEAR, pid=OTHER), holds(OTHER, NEAR),
        kernel_object(NEAR, listener=LISTENING, path=TO_SERVER),
    )  # fmt: skip
    reads = thread(0, "serve.py:9 session", call="recvfrom", on=FAR)
    assert awaited(rows, reads, by=(OTHER, OTHER)) == {0}


def test_the_evidence_says_since_when_nothing_came() -> None:
    item = kernel_object(NEAR, peer=FAR, path=TO_SERVER, received_at=job(*CLIENT).now - 41)
    rows = [item if isinstance(row, KernelObject) and row.id == NEAR else row for row in CLIENT]
    edge = node(job(*rows, *thread(0, SLEEPS)), (ROOT, ROOT)).edge
    assert edge is not None
    assert edge.words == "an answer from child of main"
    assert edge.evidence == f"{TO_SERVER}: the other end belongs to pid {SERVER}; nothing received for 41 s"


# Managers

HANDLES = (
    "multiprocessing/managers.py:419 Server.accept_connection", "multiprocessing/managers.py:187 Server.handle_request",
    "lib/threading.py:982 Thread.run",
)  # fmt: skip
IN_GET = (
    "lib/threading.py:327 Condition.wait", "lib/queue.py:171 Queue.get",
    "multiprocessing/managers.py:244 Server.serve_client", *HANDLES,
)  # fmt: skip
IN_RECV = (
    "multiprocessing/connection.py:250 _ConnectionBase.recv", "multiprocessing/managers.py:231 Server.serve_client", *HANDLES,
)  # fmt: skip
MANAGER = (
    *thread(0, "lib/threading.py:327 Condition.wait", "multiprocessing/managers.py:174 Server.serve_forever", call="futex"),
    *thread(1, *IN_GET, call="futex"),
)  # fmt: skip


def client(pid: int, near: str, far: str, number: int) -> tuple[Row, ...]:
    """A process that sleeps, and the manager's thread that waits for its next request."""
    return (
        process(pid, parent=ROOT), *thread(0, "job.py:3 produce", pid=pid), holds(pid, near), holds(SERVER, far),
        *thread(number, *IN_RECV, call="read", on=far), kernel_object(far, peer=near, path="unix"),
    )  # fmt: skip


def test_a_call_of_a_manager_waits_for_the_thread_that_serves_it() -> None:
    assert awaited(CLIENT, MANAGER, client(OTHER, "socket:20", "socket:21", 2)) == {1}


def test_which_waits_for_the_other_clients() -> None:
    found = awaited(CLIENT, MANAGER, client(OTHER, "socket:20", "socket:21", 2), by=(SERVER, SERVER + 1))
    assert found == {(OTHER, OTHER)}


def test_and_for_those_of_the_family_that_have_not_called_yet() -> None:
    new = (process(CHILD, parent=ROOT), *thread(0, "job.py:3 produce", pid=CHILD))
    found = awaited(CLIENT, MANAGER, client(OTHER, "socket:20", "socket:21", 2), new, by=(SERVER, SERVER + 1))
    assert found == {(OTHER, OTHER), (CHILD, CHILD)}


def test_a_socket_on_another_machine_of_which_no_more_is_known_may_be_the_other_end() -> None:
    """A reader that computes waits at no socket, so that the addresses of its own are not read."""
    far = "tcp 10.0.0.1:40000 to 10.0.0.2:8080"
    rows = (
        process(host="n1"), stack("main", "send.py:7 main"), blocked("sendto", NEAR, writes=True),
        kernel_object(NEAR, path=far), holds(ROOT, NEAR), process(SERVER, parent=ROOT, host="n2"), holds(SERVER, FAR),
        process(OTHER, parent=ROOT, host="n2"), process(CHILD, parent=ROOT, host="n1"), holds(CHILD, "socket:9"),
    )  # fmt: skip
    edge = node(job(*rows), (ROOT, ROOT)).edge
    assert edge is not None
    assert (edge.targets, edge.exact) == (((SERVER, SERVER),), False)
    known = (*rows, kernel_object(FAR, path="tcp 10.0.0.2:22 to 10.0.0.9:50000"))
    assert not any(isinstance(target, tuple) for target in node(job(*known), (ROOT, ROOT)).edge.targets)


def test_an_event_loop_answers_on_no_connection_that_it_does_not_watch() -> None:
    """All actors have all ends, by a fork: the one whose loop watches other connections is not the one that is asked."""
    loop = "lib/asyncio/base_events.py:1884 _run_once"
    actors = (
        process(OTHER, parent=ROOT), holds(OTHER, FAR), stack("main", loop, "actor.py:40 main", pid=OTHER),
        blocked("epoll_wait", "socket:8", "socket:9", pid=OTHER), kernel_object("socket:8"), kernel_object("socket:9"),
        process(CHILD, parent=ROOT), holds(CHILD, FAR), stack("main", "actor.py:20 act", pid=CHILD), blocked("futex", pid=CHILD),
    )  # fmt: skip
    client = tuple(row for row in CLIENT if getattr(row, "pid", 0) != SERVER)
    assert awaited(client, actors) == {(CHILD, CHILD)}
