"""Servers in an event loop whose requests wait for their own clients, while the server's own tasks tick."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import Frame, Row, Task
from tests.builders import (
    ROOT,
    START,
    after,
    blocked,
    diagnosed,
    holds,
    kernel_object,
    process,
    snapshot,
    stack,
    thread,
)

SERVER = 4110
PACKAGES = "/venv/lib/python3.12/site-packages"
BODY = Frame(function="RequestResponseCycle.receive", file=f"{PACKAGES}/uvicorn/protocols/http/h11_impl.py", line=532)
MESSAGE = Frame(
    function="WSProtocol.receive", file=f"{PACKAGES}/uvicorn/protocols/websockets/wsproto_impl.py", line=496
)
ROOM = Frame(function="StreamWriter.drain", file="/usr/lib/python3.12/asyncio/streams.py", line=392)
TICKS = Frame(function="Server.main_loop", file=f"{PACKAGES}/uvicorn/server.py", line=248)
HANDLER = Frame(function="predict", file="/home/user/job/serve.py", line=18)


def task(name: str, waits: str, *frames: Frame, **more: object) -> Task:
    fields = {"pid": SERVER, "tid": SERVER, "object": f"task:{SERVER}:{name}", "callbacks": 0, "frames": frames, **more}
    return Task(name=name, waits=waits, **fields)  # pyright: ignore[reportArgumentType]


def said(*tasks: Task, outsider: bool = False) -> Diagnosis:
    """Of a client that waits for an answer of a server with these tasks, beside one that ticks each tenth of a second."""
    far = () if outsider else (holds(ROOT, "socket:12"),)
    first = snapshot(
        process(), thread(), stack("main", "job.py:26 <module>"), blocked("recvfrom", "socket:10", ran_at=START),
        process(SERVER, parent=ROOT), thread(SERVER),
        stack("main", "/usr/lib/python3.12/asyncio/base_events.py:1910 _run_once", "serve.py:40 <module>", pid=SERVER),
        blocked("epoll_wait", "socket:1", "socket:11", "socket:13", pid=SERVER, ran_at=START, timeout_s=0.1),
        kernel_object("socket:1", listens=True, path="tcp listening on 127.0.0.1:8080"), holds(SERVER, "socket:1"),
        kernel_object("socket:10", peer="socket:11", path="tcp 127.0.0.1:40000 to 127.0.0.1:8080"), holds(ROOT, "socket:10"),
        kernel_object("socket:11", peer="socket:10", path="tcp 127.0.0.1:8080 to 127.0.0.1:40000"), holds(SERVER, "socket:11"),
        kernel_object("socket:13", peer="socket:12", path="tcp 127.0.0.1:8080 to 127.0.0.1:40001"), holds(SERVER, "socket:13"),
        *far, task("ticks", "sleep", TICKS, reaches=()), *tasks,
    )  # fmt: skip
    return diagnosed([after(first, float(second), ran=[SERVER]) for second in range(11)])


def test_a_handler_that_wants_more_than_its_client_has_sent() -> None:
    found = said(task("request", "event", BODY, HANDLER))
    (finding,) = found.findings
    assert (found.verdict, finding.cause) == (Verdict.HUNG, "lock-cycle")
    assert [(row.pid, row.frame and row.frame.line) for row in finding.suspects] == [(SERVER, 18)]
    assert "for the rest of a request of main" in finding.summary


@pytest.mark.parametrize("calls", [{"callbacks": 2, "handlers": 2}, {"callbacks": None, "handlers": -1}])
def test_neither_a_handler_of_a_signal_nor_an_unreadable_timer_makes_a_client_go_on(calls: dict[str, object]) -> None:
    assert said(task("request", "event", BODY, HANDLER, **calls)).verdict is Verdict.HUNG


def test_a_handler_that_sends_to_a_client_that_waits_for_another_answer() -> None:
    """The client must read first what it was sent over its other connection."""
    (finding,) = said(task("request", "room", ROOM, HANDLER)).findings
    assert (finding.cause, [row.pid for row in finding.suspects]) == ("pipe-full", [ROOT])
    assert "cannot send: the buffer of its socket is full, and only main could read it" in finding.summary


AT_WORK: dict[str, tuple[Row, ...]] = {
    "it waits for messages of its clients, as one does that broadcasts now and then": (
        task("session", "queue get", MESSAGE, HANDLER),
    ),
    "another request is at work": (task("request", "event", BODY, HANDLER), task("other", "thread", HANDLER)),
    "a task of the job sleeps": (task("request", "event", BODY, HANDLER), task("feed", "sleep", HANDLER)),
    "its wait has a time limit": (task("request", "event", BODY, HANDLER, timed=True),),
    "its timers could not be followed": (task("request", "event", BODY, HANDLER, callbacks=None),),
    "a timer may end the wait": (task("request", "event", BODY, HANDLER, callbacks=1),),
}  # fmt: skip


@pytest.mark.parametrize("tasks", AT_WORK.values(), ids=AT_WORK.keys())
def test_a_server_that_may_still_answer(tasks: tuple[Task, ...]) -> None:
    assert said(*tasks).verdict is not Verdict.HUNG


def test_somebody_else_may_send_something() -> None:
    assert said(task("request", "event", BODY, HANDLER), outsider=True).verdict is not Verdict.HUNG
