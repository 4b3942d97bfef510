"""Ranks compared by the sequence numbers of their collectives: who is behind, who called something else, what that proves."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.model import Collective, FlightRecord, GroupProgress, Row, Snapshot, Unknown
from tests.builders import ROOT, START, after, blocked, diagnosed, process, snapshot, stack, watched

RANKS = (4200, 4201, 4202)
C10D = "torch/distributed/distributed_c10d.py:3000"
LATER = 6.0
"""When the recorders were read, seconds after the ranks came to rest."""


def rank(number: int, what: str, *, size: int = 3) -> tuple[Row, ...]:
    """A rank that stands in an operation of torch, or sleeps."""
    pid = RANKS[number]
    frames = ("train.py:9 main",) if what == "sleep" else (f"{C10D} {what}", "train.py:7 main")
    call = blocked("clock_nanosleep", pid=pid) if what == "sleep" else blocked("futex", pid=pid)
    environment = {"RANK": str(number), "WORLD_SIZE": str(size)}
    return process(pid, parent=ROOT, environment=environment), call, stack("main", *frames, pid=pid)


def parent() -> tuple[Row, ...]:
    frames = ("lib/subprocess.py:1 Popen.wait", "launch.py:3 main")
    return process(), blocked("wait4", *(f"process:{pid}" for pid in RANKS)), stack("main", *frames)


def progress(enqueued: int, waits_in: int | None = None, *, name: str = "0", **more: object) -> GroupProgress:
    row = GroupProgress(
        backend="gloo", name=name, description="default_pg" if name == "0" else "", enqueued=enqueued, waits_in=waits_in
    )
    return msgspec.structs.replace(row, **more)


def record(number: int, *groups: GroupProgress, at: float = LATER, **more: object) -> FlightRecord:
    row = FlightRecord(rank=number, read_at=START + at, groups=groups)
    return msgspec.structs.replace(row, **more)


def call(number: int, at: int, operation: str, *, size: int = 4, dtype: str = "Float", group: str = "0") -> Collective:
    return Collective(
        rank=number, backend="gloo", group=group, number=at, operation=operation, state="scheduled", sizes=((size,),),
        dtypes=(dtype,),
    )  # fmt: skip


STRAGGLING = (*parent(), *rank(0, "all_reduce"), *rank(1, "sleep"), *rank(2, "all_reduce"))
BEHIND = (
    record(0, progress(6, 6)), record(1, progress(5)), record(2, progress(6, 6)),
    call(0, 6, "all_reduce"), call(1, 5, "broadcast"), call(2, 6, "all_reduce"),
)  # fmt: skip
EVIDENCE = "rank 1 has enqueued collective 5 (broadcast) of group 0, rank 0 and rank 2 wait in 6 (all_reduce)"


def seen(*rows: Row) -> Diagnosis:
    found = watched(snapshot(*rows))
    assert found.verdict is Verdict.HUNG, found.because
    return found


def told(*rows: Row) -> tuple[str, Certainty, list[int | None], str]:
    """Cause, certainty, ranks of the suspects, the first line of evidence."""
    finding = seen(*rows).findings[0]
    return finding.cause, finding.certainty, [row.rank for row in finding.suspects], finding.evidence[0]


def test_a_rank_that_is_behind_is_proved() -> None:
    assert told(*STRAGGLING, *BEHIND) == ("straggler", Certainty.PROVED, [1], EVIDENCE)


def test_without_numbers_everything_stays_as_it_is() -> None:
    cause, certainty, suspects, _ = told(*STRAGGLING)
    assert (cause, certainty, suspects) == ("straggler", Certainty.LIKELY, [1])


@pytest.mark.parametrize(
    "rows",
    [
        (*BEHIND[:2], *BEHIND[3:]),
        tuple(
            msgspec.structs.replace(row, read_at=START - 200) if isinstance(row, FlightRecord) else row
            for row in BEHIND
        ),
        (*BEHIND, record(1, progress(5), at=1.0)),
    ],
    ids=["one is not known", "of an earlier run", "two say the same"],
)
def test_only_numbers_of_all_ranks_count(rows: tuple[Row, ...]) -> None:
    certainty = told(*STRAGGLING, *rows)[1]
    assert certainty is (Certainty.PROVED if len(rows) > len(BEHIND) else Certainty.LIKELY)


def test_a_rank_that_used_no_group_yet_is_behind() -> None:
    rows = (record(0, progress(1, 1)), record(1), record(2, progress(1, 1)), call(0, 1, "all_reduce"))
    assert told(*STRAGGLING, *rows) == (
        "straggler", Certainty.PROVED, [1],
        "rank 1 has enqueued no collective of group 0, rank 0 and rank 2 wait in 1 (all_reduce)",
    )  # fmt: skip


@pytest.mark.parametrize("doubt", [{"unnamed": 1, "groups": ()}, {"groups": (progress(5, counted=False),)}])
def test_a_number_in_doubt_proves_nothing(doubt: dict[str, object]) -> None:
    rows = (*BEHIND[:1], msgspec.structs.replace(record(1), **doubt), *BEHIND[2:])
    assert told(*STRAGGLING, *rows)[:3] == ("straggler", Certainty.LIKELY, [1])


def test_an_operation_with_a_root_proves_nothing() -> None:
    ranks = (*parent(), *rank(0, "broadcast"), *rank(1, "sleep"), *rank(2, "broadcast"))
    rows = (*BEHIND[:3], call(0, 6, "broadcast"), call(2, 6, "broadcast"))
    assert told(*ranks, *rows)[:3] == ("straggler", Certainty.LIKELY, [1])


def rounds(first: Snapshot, ran_at: int, pid: int) -> list[Snapshot]:
    """Rounds; in one of them this process runs."""
    found = [first]
    for second in range(1, 45):
        found.append(after(found[-1], 1.0, ran=[pid] if second == ran_at else []))
    return found


def test_numbers_read_before_the_rank_ran_are_dropped() -> None:
    finding = diagnosed(rounds(snapshot(*STRAGGLING, *BEHIND), int(LATER) + 1, RANKS[1])).findings[0]
    assert (finding.cause, finding.certainty) == ("straggler", Certainty.LIKELY)
    assert EVIDENCE not in finding.evidence


def test_numbers_read_after_it_ran_count() -> None:
    finding = diagnosed(rounds(snapshot(*STRAGGLING, *BEHIND), int(LATER) - 1, RANKS[1])).findings[0]
    assert finding.certainty is Certainty.PROVED


def test_a_rank_on_another_machine_is_behind() -> None:
    ranks = (*parent(), *rank(0, "all_reduce", size=2), *rank(2, "all_reduce", size=2))
    rows = (record(0, progress(6, 6)), record(1, progress(5)), record(2, progress(6, 6)), call(0, 6, "all_reduce"))
    finding = seen(*ranks, *rows).findings[0]
    assert finding.certainty is not Certainty.PROVED
    assert finding.chain[-1].does == "rank 1, which does not run here"


# Another turn

ALL_IN = (*parent(), *rank(0, "all_reduce"), *rank(1, "all_reduce"), *rank(2, "all_reduce"))
SAME_NUMBER = tuple(record(number, progress(7, 7)) for number in range(3))


def calls(*operations: str) -> tuple[Row, ...]:
    return tuple(call(number, 7, operation) for number, operation in enumerate(operations))


def test_another_operation_under_the_same_number() -> None:
    ranks = (*parent(), *rank(0, "all_reduce"), *rank(1, "barrier"), *rank(2, "all_reduce"))
    cause, certainty, suspects, evidence = told(*ranks, *SAME_NUMBER, *calls("all_reduce", "barrier", "all_reduce"))
    assert (cause, certainty, suspects) == ("collective-mismatch", Certainty.PROVED, [1])
    assert evidence == "rank 0 and rank 2 called all_reduce as collective 7 of group 0"


def test_a_gradient_reduction_under_the_same_number_as_a_barrier() -> None:
    backward = ("torch/autograd/graph.py:9 _engine_run_backward", "train.py:7 main")
    stacks = tuple(stack("main", *backward, pid=RANKS[number]) for number in (0, 2))
    others = [row for row in (*rank(0, "x"), *rank(2, "x")) if type(row).__name__ != "Stack"]
    found = told(
        *parent(), *others, *stacks, *rank(1, "barrier"), *SAME_NUMBER, *calls("all_reduce", "barrier", "all_reduce")
    )
    assert found[:3] == ("collective-missing", Certainty.PROVED, [1])


@pytest.mark.parametrize("other", [call(2, 7, "all_reduce", size=8), call(2, 7, "all_reduce", dtype="Double")])
def test_another_size_or_type(other: Collective) -> None:
    cause, certainty, suspects, evidence = told(*ALL_IN, *SAME_NUMBER, *calls("all_reduce", "all_reduce"), other)
    assert (cause, certainty, suspects) == ("collective-mismatch", Certainty.PROVED, [2])
    assert evidence == "rank 0 and rank 1 called all_reduce of 4 x Float as collective 7 of group 0"


def test_shapes_of_the_same_number_of_elements_are_no_mismatch() -> None:
    square = msgspec.structs.replace(call(2, 7, "all_reduce"), sizes=((2, 2),))
    finding = seen(*ALL_IN, *SAME_NUMBER, *calls("all_reduce", "all_reduce"), square).findings[0]
    assert finding.cause != "collective-mismatch"


def test_where_all_differ_nobody_is_the_odd_one() -> None:
    rows = tuple(call(number, 7, "all_reduce", size=number + 1) for number in range(3))
    finding = seen(*ALL_IN, *SAME_NUMBER, *rows).findings[0]
    assert (finding.cause, finding.certainty) == ("collective-mismatch", Certainty.LIKELY)


def test_two_ranks_that_wait_for_each_other_in_two_groups() -> None:
    pair = {"ranks": (0, 1)}
    ranks = (*parent(), *rank(0, "all_reduce"), *rank(1, "all_reduce"), *rank(2, "all_reduce"))
    rows = (
        record(0, progress(6), progress(1, 1, name="1", **pair)),
        record(1, progress(6), progress(1, 1, name="2", **pair)),
        record(2, progress(7, 7)),
        call(0, 1, "all_reduce", group="1"), call(1, 1, "all_reduce", group="2"), call(2, 7, "all_reduce"),
    )  # fmt: skip
    finding = seen(*ranks, *rows).findings[0]
    assert (finding.cause, finding.certainty) == ("collective-mismatch", Certainty.PROVED)
    assert sorted(row.rank or 0 for row in finding.suspects) == [0, 1]


def test_a_source_that_fails_is_told_in_the_report() -> None:
    unknown = Unknown(table="flight_records", pid=ROOT, reason="http://x:1: Connection refused")
    found = seen(*STRAGGLING, unknown)
    assert {row.cause for row in found.unchecked} == {"collective-mismatch", "collective-missing"}
    assert all("numbers of collectives" in row.reason and "refused" in row.reason for row in found.unchecked)
