"""Sends and receives between ranks: whom a rank waits for that does not name the other side, and who has gone on."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest

from mpmon.diagnosis.findings import Finding
from mpmon.diagnosis.libraries import RANK_THREADS
from mpmon.model import JoinTarget, Row
from tests.builders import ROOT, START, blocked, frame, holds, kernel_object, process, snapshot, stack, thread, watched

C10D = "torch/distributed/distributed_c10d.py"
RANKS = (4110, 4111, 4112)
GREETED, ASKED = 8, 392
"""Bytes that rank 2 has sent over a connection: when it was made; and after some receives."""

JOINS = (
    process(), stack("main", "torch/multiprocessing/spawn.py:140 join", "train.py:75 <module>"),
    blocked("poll", *(f"process:{pid}" for pid in RANKS), ran_at=START - 60),
)  # fmt: skip


def rank(number: int, *waits: Row) -> tuple[Row, ...]:
    pid = RANKS[number]
    environment = {"RANK": str(number), "WORLD_SIZE": "3"}
    return process(pid, parent=ROOT, environment=environment), thread(pid), *waits


def calls(number: int, function: str, **known: str) -> tuple[Row, ...]:
    """A rank stands in a function of torch.distributed."""
    pid = RANKS[number]
    called = msgspec.structs.replace(frame(f"{C10D}:2700 {function}"), known=known or None)
    return rank(
        number, stack("main", called, f"train.py:{50 + number} run", pid=pid), blocked("futex", pid=pid, ran_at=0.0)
    )


def waits_for_work(number: int) -> tuple[Row, ...]:
    """A rank called `wait()` of what `isend`, `irecv` or a collective gave it."""
    pid = RANKS[number]
    return rank(
        number, stack("main", f"train.py:{40 + number} receive", pid=pid), blocked("futex", pid=pid, ran_at=0.0),
        JoinTarget(pid=pid, tid=pid, kind="work"), thread(pid, pid + 1000, name=min(RANK_THREADS)),
    )  # fmt: skip


def connections(*, sent: dict[int, int | None], server: bool = False) -> tuple[Row, ...]:
    """Of every rank to every other one, as gloo makes them; rank 2 has sent so much to these."""
    rows: list[Row] = []
    for one, other in permutations(range(3), 2):
        name, peer = f"socket:{one}{other}", f"socket:{other}{one}"
        amount = sent.get(other, ASKED) if one == 2 else ASKED
        rows += [kernel_object(name, peer=peer, sent_bytes=amount), holds(RANKS[one], name)]
    for number, pid in enumerate(RANKS):
        names = [f"socket:{number}{other}" for other in range(3) if other != number]
        names += ["socket:90"] if server and number == 2 else []
        rows += [thread(pid, pid + 2000), blocked("epoll_wait", *names, pid=pid, tid=pid + 2000, ran_at=0.0)]
    if server:
        rows += [kernel_object("socket:90", peer="socket:91", sent_bytes=9000), holds(RANKS[2], "socket:90")]
    return tuple(rows)


def said(*parts: tuple[Row, ...]) -> Finding:
    return watched(snapshot(*JOINS, *(row for part in parts for row in part))).findings[0]


def suspects(finding: Finding) -> list[str]:
    return [suspect.role for suspect in finding.suspects]


SHORT = (calls(0, "send", dst="1"), calls(1, "barrier"), waits_for_work(2))
"""Rank 0 sends to rank 1 and rank 2 receives from it, but rank 1 counts one micro batch less."""


@pytest.mark.parametrize("server", [False, True], ids=["", "and serves the store"])
def test_a_stage_that_has_gone_on_is_named(*, server: bool) -> None:
    finding = said(*SHORT, connections(sent={0: GREETED}, server=server))
    assert (finding.cause, suspects(finding)) == ("sendrecv-unmatched", ["rank 1"])
    assert "rank 2 has never sent anything to any rank other than rank 1" in finding.evidence


@pytest.mark.parametrize(
    "sent",
    [{0: ASKED}, {0: None}, {0: GREETED, 1: GREETED}],
    ids=["it asked both", "the kernel does not tell", "it asked nobody"],
)
def test_whom_it_asked_is_not_known(sent: dict[int, int | None]) -> None:
    assert said(*SHORT, connections(sent=sent)).cause == "collective-mismatch"


def test_without_connections_nothing_is_known() -> None:
    assert said(*SHORT).cause == "collective-mismatch"


def test_one_receives_from_a_rank_that_has_gone_on_with_most() -> None:
    """That rank should have sent before; of one that still sends, most tell that it does more than the others."""
    finding = said(calls(0, "barrier"), calls(1, "barrier"), calls(2, "recv", src="1"))
    assert (finding.cause, suspects(finding)) == ("sendrecv-unmatched", ["rank 1"])
    finding = said(calls(0, "barrier"), calls(1, "barrier"), calls(2, "send", dst="1"))
    assert (finding.cause, suspects(finding)) == ("collective-mismatch", ["rank 2"])


def test_who_waits_for_one_that_waits_leads_on() -> None:
    finding = said(calls(0, "barrier"), calls(1, "recv", src="0"), calls(2, "recv", src="1"))
    assert suspects(finding) == ["rank 0"]


def test_one_that_receives_from_anybody_keeps_those_waiting_that_receive_from_it() -> None:
    """A parameter server that counts one push too many."""
    finding = said(calls(0, "recv", tag="0"), calls(1, "recv", src="0", tag="0"), calls(2, "recv", src="0", tag="0"))
    assert (finding.cause, suspects(finding)) == ("sendrecv-unmatched", ["rank 0"])


def test_all_receive_from_each_other() -> None:
    finding = said(*(calls(number, "recv", src=str((number + 1) % 3), tag="0") for number in range(3)))
    assert (finding.cause, len(suspects(finding))) == ("sendrecv-unmatched", 3)


CROSSED = (("recv", "src", "1"), ("send", "dst", "2"), ("recv", "src", "0"), ("recv", "src", "2"))
"""Each of the first three of four ranks wants something of another one that this one does not do."""


def with_plan(number: int, plan: int, *, ranks: int = 4) -> tuple[Row, ...]:
    """A rank in its call, with a hash of the plan that it follows."""
    pid, (function, argument, peer) = RANKS[0] + number, CROSSED[number]
    environment = {"RANK": str(number), "WORLD_SIZE": str(ranks)}
    called = msgspec.structs.replace(frame(f"{C10D}:2700 {function}"), known={argument: peer})
    user = msgspec.structs.replace(frame(f"train.py:{50 + number} run"), plain={"plan": plan, "rank": number})
    return (
        process(pid, parent=ROOT, environment=environment), thread(pid), stack("main", called, user, pid=pid),
        blocked("futex", pid=pid, ran_at=0.0),
    )  # fmt: skip


ALL = ["rank 0", "rank 1", "rank 2"]


@pytest.mark.parametrize(
    ("plans", "blamed"),
    [
        ((7, 8, 7, 7), ["rank 1"]),
        ((7, 7, 8, 7), ["rank 2"]),
        ((8, 7, 7, 7), ALL),
        ((7, 7, 7, 8), ALL),
        ((8, 7, 7, 8), ALL),
        ((7, 8, 9, 7), ALL),
        ((7, 7, 7, 7), ALL),
        ((7, 8, 7), ALL),
    ],
    ids=[
        "one goes by another plan", "another one does", "the first has a part of its own", "the last has", "both ends have",
        "each has its own part", "all the same", "only one is no end",
    ],
)  # fmt: skip
def test_a_rank_with_another_variable_than_all_others_is_named(plans: tuple[int, ...], blamed: list[str]) -> None:
    finding = said(*(with_plan(number, plan, ranks=len(plans)) for number, plan in enumerate(plans)))
    assert (finding.cause, sorted(suspects(finding))) == ("sendrecv-unmatched", blamed)
    assert any("`plan` in run()" in row for row in finding.evidence) == (len(blamed) == 1)
