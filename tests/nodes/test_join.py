"""Snapshots of several machines as one: nobody is taken for another, and who is connected finds each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from mpmon.codec import decode, encode
from mpmon.diagnosis.findings import Diagnosis
from mpmon.model import PIDS_OF_A_HOST, AnyMoment, KernelObject, Moment, Name, Pid, ProbeReport, Row, Snapshot
from mpmon.nodes.join import ROOT_PID, Joiner, Part, Unjoinable, join
from tests import builders
from tests.builders import ROOT, START, blocked, holds, kernel_object, process, snapshot, stack, thread
from tests.diagnosis.test_invariance import diagnosed
from tests.hangs.expected import cases

THIRD = 3


def alone(host: str, *rows: Row, offset_s: float = 0.0, at: float = 0.0) -> Part:
    """What one machine says, whose job has these rows."""
    return Part(host=host, offset_s=offset_s, snapshot=snapshot(process(), *rows, at=at))


def socket(inode: int, near: str, far: str, **more: object) -> KernelObject:
    """One end of a TCP connection."""
    return kernel_object(f"socket:{inode}", path=f"tcp {near} to {far}", **more)


def peers(joined: Snapshot) -> set[tuple[str, str]]:
    return {(row.id, row.peer) for row in joined.objects if row.peer}


# Whatever was recorded on one machine says the same as one of several


class ThirdHost:
    """The same rounds as those of the third host of a job, of which the others do not answer."""

    def __init__(self) -> None:
        self._joiner = Joiner()

    def __call__(self, one: Snapshot) -> Snapshot:
        """One round."""
        silent = [Part(host=name, problem="does not answer") for name in ("h1", "h2")]
        return self._joiner.join([*silent, Part(host="h3", snapshot=one)])


def told(diagnosis: Diagnosis) -> list[tuple[object, ...]]:
    """Verdict, and of each finding what is said of whom."""
    rows: list[tuple[object, ...]] = [(diagnosis.verdict,)]
    for finding in diagnosis.findings:
        suspects = sorted((row.pid % PIDS_OF_A_HOST, row.role, str(row.frame)) for row in finding.suspects)
        waiters = sorted((row.pid % PIDS_OF_A_HOST, row.role) for row in finding.waiters)
        rows.append((finding.cause, finding.certainty, suspects, waiters))
    return rows


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_recorded_case_says_the_same_as_host_of_a_job(case: Path) -> None:
    assert told(diagnosed(case, ThirdHost())) == told(diagnosed(case))


# Names


@pytest.mark.parametrize("kind", list(builders._TABLES), ids=lambda kind: kind.__name__)
def test_the_model_says_which_fields_are_names(kind: type[Row]) -> None:
    hints = get_type_hints(kind, include_extras=True)
    for name, hint in hints.items():
        if name in ("pid", "tid", "ppid", "pgid", "sid", "child", "creator") or name.endswith(("_pid", "_tid")):
            assert hint in (Pid, Pid | None), name
        if name in ("object", "peer", "listener") or name == "id":
            assert hint in (Name, Name | None), name
        if name.endswith("_at") and hint in (float, float | None):
            pytest.fail(f"{name} is a moment: of `Moment`, or of `AnyMoment`")
        if name == "start_time":
            assert hint in (Moment, AnyMoment), name


def test_the_same_numbers_on_two_machines_are_two_processes() -> None:
    rows = (thread(tid=7), blocked("futex", f"futex:{ROOT}:0xa0"), holds(ROOT, "pipe:5"))
    joined = join([alone("a", *rows), alone("b", *rows)])
    first, second = PIDS_OF_A_HOST + ROOT, 2 * PIDS_OF_A_HOST + ROOT
    assert [(row.pid, row.host) for row in joined.processes] == [(ROOT_PID, ""), (first, "a"), (second, "b")]
    assert [row.ppid for row in joined.processes] == [0, ROOT_PID, ROOT_PID]
    assert [(row.pid, row.tid) for row in joined.threads if row.tid != row.pid] == [
        (first, PIDS_OF_A_HOST + 7), (second, 2 * PIDS_OF_A_HOST + 7),
    ]  # fmt: skip
    assert [row.waits_on for row in joined.blocked] == [(f"futex:{first}:0xa0",), (f"futex:{second}:0xa0",)]
    assert [row.object for row in joined.handles] == ["pipe:5@a", "pipe:5@b"]


def test_of_nobody_there_is_nobody_on_any_machine() -> None:
    joined = join([alone("a", blocked("wait4", "process:any")), alone("b", process(9, parent=0, tracer_pid=0))])
    assert joined.blocked[0].waits_on == ("process:any",)
    assert [(row.ppid, row.tracer_pid) for row in joined.processes if row.pid % PIDS_OF_A_HOST == 9] == [(0, 0)]


def test_one_name_twice_is_two_machines() -> None:
    parts = [alone("worker-0"), Part(host="worker-0", snapshot=snapshot(process(50), root=50))]
    for order in itertools.permutations(parts):
        assert [(row.pid % PIDS_OF_A_HOST, row.host) for row in join(order).processes[1:]] == [
            (50, "worker-0"), (ROOT, "worker-0 (2)"),
        ]  # fmt: skip


def test_one_machine_twice_is_refused() -> None:
    with pytest.raises(Unjoinable, match=f"pid {ROOT} of a"):
        join([alone("a"), alone("a")])


def test_a_number_that_no_kernel_gives_is_refused() -> None:
    with pytest.raises(Unjoinable, match=str(PIDS_OF_A_HOST)):
        join([alone("a", process(PIDS_OF_A_HOST)), alone("b")])


def test_what_is_joined_already_is_refused() -> None:
    with pytest.raises(Unjoinable, match="joined"):
        join([Part(host="a", snapshot=join([alone("b"), alone("c")]))])


def test_where_nobody_answers_there_is_nothing_to_join() -> None:
    with pytest.raises(Unjoinable, match="no machine"):
        join([Part(host="a", problem="does not answer")])


def test_the_order_in_which_machines_are_named_does_not_matter() -> None:
    ends = (socket(1, "10.0.0.1:5", "10.0.0.2:6"), socket(2, "10.0.0.2:6", "10.0.0.1:5"), kernel_object("pipe:3"))
    parts = [alone(name, end, at=at) for name, end, at in zip("abc", ends, (0.1, 0.3, 0.2), strict=True)]
    documents = {encode(join(order)) for order in itertools.permutations(parts)}
    assert len(documents) == 1


def test_names_and_moments_that_nobody_should_have_do_no_harm() -> None:
    digits = "9" * 5000
    rows = blocked("futex", f"futex:{digits}:0x1", "process:\u0663", ran_at=253_370_764_799.0)
    joined = join([alone("a\\1", rows, offset_s=-1e12), alone("b")])
    assert joined.blocked[0].waits_on == (f"futex:{digits}:0x1", "process:\u0663")
    assert decode(encode(joined), Snapshot) is not None


# Rounds


def test_a_machine_keeps_its_number_while_others_come_and_go() -> None:
    joiner = Joiner()
    first = joiner.join([alone("b"), Part(host="a", problem="does not answer")])
    then = joiner.join([alone("b"), alone("a"), alone("A")])
    pids = {row.host: row.pid for row in then.processes}
    assert pids["b"] == first.processes[1].pid
    assert len({pid // PIDS_OF_A_HOST for pid in pids.values()}) == 4
    assert [(row.host, row.problem) for row in first.nodes] == [("a", "does not answer"), ("b", None)]


def test_what_did_not_change_is_the_same_object() -> None:
    joiner = Joiner()
    one = snapshot(process(), blocked("futex", "futex:4100:0x1"), stack("main", "train.py:3 main"),
                   socket(1, "10.0.0.1:5", "10.0.0.2:6"))  # fmt: skip
    other = snapshot(process(), socket(2, "10.0.0.2:6", "10.0.0.1:5"))
    before = joiner.join([Part(host="a", snapshot=one), Part(host="b", snapshot=other)])
    later = [Part(host=name, snapshot=builders.after(old, 1.0)) for name, old in (("a", one), ("b", other))]
    after = joiner.join(later)
    assert after.taken_at == before.taken_at + 1.0
    for table in ("processes", "threads", "blocked", "stacks", "objects"):
        assert getattr(after, table) is getattr(before, table), table


# Clocks


def test_a_clock_that_is_ahead_is_put_right() -> None:
    hour = 3600.0
    late = alone("b", stack("main", "train.py:3 main", at=hour), blocked("poll", ran_at=START + hour, wakes_at=START + hour + 9),
                 offset_s=hour, at=hour + 0.5)  # fmt: skip
    joined = join([alone("a", at=0.0), late])
    assert joined.taken_at == START + 0.5
    assert [row.taken_at for row in joined.stacks] == [START]
    assert [(row.ran_at, row.wakes_at) for row in joined.blocked] == [(START, START + 9)]
    assert [(row.host, row.taken_at, row.offset_s) for row in joined.nodes] == [
        ("a", START, 0.0), ("b", START + 0.5, hour),
    ]  # fmt: skip


# Connections


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ("10.0.0.1:40000", "10.0.0.2:29500"),
        ("[2001:db8::1]:40000", "[2001:db8::2]:29500"),
    ],
)
def test_both_ends_of_a_connection_find_each_other(near: str, far: str) -> None:
    joined = join([alone("a", socket(1, near, far)), alone("b", socket(1, far, near))])
    assert peers(joined) == {("socket:1@a", "socket:1@b"), ("socket:1@b", "socket:1@a")}


def test_a_server_on_ipv6_sees_a_client_of_ipv4() -> None:
    client = socket(1, "10.0.0.1:40000", "10.0.0.2:29500")
    server = socket(2, "[::ffff:10.0.0.2]:29500", "[::ffff:10.0.0.1]:40000")
    assert len(peers(join([alone("a", client), alone("b", server)]))) == 2


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]", "[fe80::1]", "169.254.0.7", "[::ffff:127.0.0.1]"])
def test_an_address_of_each_machines_own_leads_to_no_other(address: str) -> None:
    one, other = socket(1, f"{address}:5", f"{address}:6"), socket(1, f"{address}:6", f"{address}:5")
    assert not peers(join([alone("a", one), alone("b", other)]))


def test_a_private_address_that_two_machines_have_is_not_guessed() -> None:
    one, other = "172.17.0.2:5", "172.17.0.3:6"
    parts = [alone("a", socket(1, one, other)), alone("b", socket(1, other, one)), alone("c", socket(1, other, one))]
    assert not peers(join(parts))


def test_what_has_a_peer_on_its_own_machine_keeps_it() -> None:
    one, other = "10.0.0.1:5", "10.0.0.1:6"
    both = (socket(1, one, other, peer="socket:2"), socket(2, other, one, peer="socket:1"))
    assert peers(join([alone("a", *both), alone("b")])) == {("socket:1@a", "socket:2@a"), ("socket:2@a", "socket:1@a")}


def test_what_is_no_connection_has_no_ends() -> None:
    rows = [
        kernel_object("socket:1", path="tcp listening on 0.0.0.0:5", listens=True),
        kernel_object("socket:2", path="unix /run/a"),
        kernel_object("socket:3", path="tcp somewhere:5 to 10.0.0.1:6"),
        kernel_object("pipe:4"),
    ]
    assert not peers(join([alone("a", *rows), alone("b", *rows)]))


# Probes


def test_a_probe_is_as_good_as_on_the_worst_machine() -> None:
    def part(host: str, report: ProbeReport) -> Part:
        one = alone(host)
        assert one.snapshot
        return msgspec.structs.replace(one, snapshot=msgspec.structs.replace(one.snapshot, probes=(report,)))

    good = ProbeReport(name="stacks", ok=True, seconds=0.25)
    bad = ProbeReport(name="stacks", ok=False, seconds=0.5, problem="no right")
    worse = ProbeReport(name="stacks", ok=False, seconds=0.1, problem="no py-spy")
    joined: Sequence[ProbeReport] = join([part("a", good), part("b", bad)]).probes
    assert joined == (ProbeReport(name="stacks", ok=False, seconds=0.5, problem="no right"),)
    assert join([part("a", worse), part("b", bad)]).probes[0].problem in ("a: no py-spy", "b: no right")
