"""Bytes that are sent again and again over a connection: whose hang they explain, and whose they do not."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Diagnosis, Finding, Verdict
from mpmon.model import KernelObject, Row
from tests.builders import ROOT, START, blocked, holds, kernel_object, process, snapshot, stack, thread, watched

SERVER = 4121
NEAR, FAR = "10.0.0.1:4000", "10.0.0.2:5000"


def end(name: str, near: str, far: str, **more: object) -> KernelObject:
    quiet = {
        "fill": 0,
        "unacknowledged_bytes": 0,
        "resends": 0,
        "acknowledged_at": START - 20,
        "received_at": START - 20,
    }
    return kernel_object(name, path=f"tcp {near} to {far}", **{**quiet, **more})


LOST = {"unacknowledged_bytes": 400, "resends": 5}


def asks(**sent: object) -> tuple[Row, ...]:
    """The root waits for an answer over its connection."""
    peer = sent.pop("peer", "socket:2")
    return (
        process(), thread(), stack("main", "train.py:9 ask"), blocked("recvfrom", "socket:1", ran_at=START - 20),
        holds(ROOT, "socket:1"), end("socket:1", NEAR, FAR, peer=peer, **sent),
    )  # fmt: skip


def serves(**received: object) -> tuple[Row, ...]:
    """Its child waits for a request at the other end."""
    return (
        process(SERVER, parent=ROOT), thread(SERVER), stack("main", "serve.py:5 serve", pid=SERVER),
        blocked("recvfrom", "socket:2", pid=SERVER, ran_at=START - 20),
        holds(SERVER, "socket:2"), end("socket:2", FAR, NEAR, **{"peer": "socket:1", **received}),
    )  # fmt: skip


def said(*rows: Row) -> Diagnosis:
    return watched(snapshot(*rows))


def finding(*rows: Row) -> Finding:
    found = said(*rows)
    assert found.verdict is Verdict.HUNG, found.because
    return found.findings[0]


def test_both_wait_and_what_one_has_sent_does_not_arrive() -> None:
    found = finding(*asks(**LOST), *serves())
    assert (found.cause, found.suspects) == ("link-stalled", ())
    assert f"({NEAR}) to child of main" in found.summary
    assert f"({FAR}) is not arriving: the sender's kernel has resent the same bytes 5 times" in found.summary
    assert "400 bytes unacknowledged" in found.evidence[0]


def rank(number: int, near: str, far: str, *, kind: str = "gloo_tcp_loop", **sent: object) -> tuple[Row, ...]:
    """It is in `all_reduce`, and a thread of gloo waits for what comes over its connection."""
    pid, name = 4110 + number, f"socket:{number}"
    return (
        process(pid, parent=ROOT, environment={"RANK": str(number), "WORLD_SIZE": "2"}), thread(pid),
        stack("main", "torch/distributed/distributed_c10d.py:2700 all_reduce", "train.py:50 run", pid=pid),
        blocked("futex", pid=pid, ran_at=START - 20), thread(pid, pid + 1000, name=kind),
        blocked("epoll_wait", name, pid=pid, tid=pid + 1000), holds(pid, name), end(name, near, far, **sent),
    )  # fmt: skip


JOINS = (
    process(), thread(), stack("main", "torch/multiprocessing/spawn.py:140 join", "train.py:75 <module>"),
    blocked("poll", "process:4110", "process:4111", ran_at=START - 60),
)  # fmt: skip


def test_ranks_in_two_networks_of_one_machine_are_found_by_their_addresses() -> None:
    found = finding(*JOINS, *rank(0, NEAR, FAR, **LOST), *rank(1, FAR, NEAR))
    assert found.cause == "link-stalled"
    assert f"data from rank 0 ({NEAR}) to rank 1 ({FAR})" in found.summary


def test_connections_of_other_threads_of_a_rank_are_not_its_collectives() -> None:
    assert finding(*JOINS, *rank(0, NEAR, FAR, kind="wandb", **LOST), *rank(1, FAR, NEAR)).cause != "link-stalled"


def test_the_direction_is_that_of_the_lost_bytes() -> None:
    assert f"({FAR}) to main" in finding(*asks(), *serves(**LOST)).summary


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [
        ({}, {}),
        ({"unacknowledged_bytes": 400}, {}),
        ({"unacknowledged_bytes": 400, "resends": 2}, {}),
        ({"unacknowledged_bytes": 0, "resends": 5}, {}),
        ({**LOST, "acknowledged_at": START + 11}, {}),
        (LOST, {"fill": 12}),
        (LOST, {"fill": None}),
        ({"unacknowledged_bytes": None, "resends": None}, {}),
    ],
    ids=["nothing sent", "no room", "two resends", "only a greeting", "acknowledged", "unread", "unknown", "not told"],
)
def test_what_is_not_lost_explains_nothing(sender: dict[str, object], receiver: dict[str, object]) -> None:
    found = said(*asks(**sender), *serves(**receiver))
    assert "link-stalled" not in [row.cause for row in found.findings]


def test_without_the_time_of_acknowledgements_the_resends_tell() -> None:
    assert finding(*asks(**LOST, acknowledged_at=None), *serves()).cause == "link-stalled"


def test_the_other_end_is_on_another_machine() -> None:
    found = finding(*asks(**LOST, peer=None))
    assert found.cause == "link-stalled"
    assert f"to {FAR} is not arriving" in found.summary
    assert "the other end is not visible to mpmon" in found.evidence[0]


def test_a_server_that_is_merely_silent_is_waited_for() -> None:
    assert finding(*asks(peer=None)).cause == "io-wait"


def test_a_receiver_that_sleeps_is_to_blame_itself() -> None:
    asleep = (
        process(SERVER, parent=ROOT), thread(SERVER), stack("main", "serve.py:7 serve", pid=SERVER),
        blocked("clock_nanosleep", pid=SERVER, ran_at=START - 20, wakes_at=START + 9000),
        holds(SERVER, "socket:2"), end("socket:2", FAR, NEAR, peer="socket:1", fill=90_000),
    )  # fmt: skip
    found = finding(*asks(unacknowledged_bytes=400), *asleep)
    assert found.cause != "link-stalled"
    assert [row.pid for row in found.suspects] == [SERVER]


def test_a_connection_that_nobody_waits_at_explains_nothing() -> None:
    other = (end("socket:9", "10.0.0.1:7", "10.0.0.9:443", **LOST), holds(ROOT, "socket:9"))
    assert finding(*asks(), *serves(), *other).cause != "link-stalled"
