"""Recordings that were made by hand, one on each machine, as one: whose clocks are wrong, and what was not seen together."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from mpmon.codec import encode
from mpmon.diagnosis.findings import Verdict
from mpmon.errors import UsageError
from mpmon.model import KernelObject, Snapshot
from mpmon.nodes.join import Part, join
from mpmon.nodes.rounds import Place, Timing, count, joined, places
from mpmon.session.recording import Recorder, read_recording
from mpmon.session.recordings import Recordings
from tests.builders import START, kernel_object, process, snapshot
from tests.nodes.recorded import CASES, last, recordings

HOUR = 3600.0


def timing(host: str, *moments: float, objects: tuple[KernelObject, ...] = (), clock: float = 0.0) -> Timing:
    """Of a machine whose clock is that far ahead."""
    shown = msgspec.structs.replace(snapshot(process(), at=moments[-1] + clock), objects=objects)
    return Timing(host=host, moments=tuple(START + moment + clock for moment in moments), last=shown)


def end(near: str, far: str, *, sent: float, received: float, clock: float = 0.0) -> KernelObject:
    """An end of a connection over which the last bytes went at these moments."""
    return kernel_object(
        f"socket:{near[-1]}{far[-1]}", kind="socket", path=f"tcp {near} to {far}",
        sent_at=START + sent + clock, received_at=START + received + clock,
    )  # fmt: skip


A, B, C = "10.0.0.1:5", "10.0.0.2:6", "10.0.0.3:7"


def test_clocks_of_which_nothing_tells_are_as_good_as_equal() -> None:
    assert places([timing("a", 0, 1, 2, 3), timing("b", 0.4, 1.4, 2.4, 3.4)]) == [Place(), Place()]


def test_a_connection_at_rest_tells_whose_clock_is_wrong() -> None:
    """Of three clocks two agree."""
    ends = {
        "a": (end(A, B, sent=-9, received=-8), end(A, C, sent=-9, received=-8)),
        "b": (end(B, A, sent=-8, received=-9, clock=HOUR), end(B, C, sent=-7, received=-6, clock=HOUR)),
        "c": (end(C, A, sent=-8, received=-9), end(C, B, sent=-6, received=-7)),
    }
    rows = [timing(host, 0, 1, 2, objects=found, clock=HOUR if host == "b" else 0.0) for host, found in ends.items()]
    for order in itertools.permutations(rows):
        found = {row.host: place for row, place in zip(order, places(order), strict=True)}
        assert found == {"a": Place(), "b": Place(offset_s=HOUR), "c": Place()}


@pytest.mark.parametrize(("sent", "received"), [(1.5, 1.9), (-9, 1.9), (1.5, -9)])
def test_a_connection_in_use_tells_nothing(sent: float, received: float) -> None:
    one = timing("a", 0, 1, 2, objects=(end(A, B, sent=sent, received=received),))
    other = timing("b", 0, 1, 2, objects=(end(B, A, sent=-30, received=-40),))
    assert places([one, other]) == [Place(), Place()]


def test_connections_that_contradict_each_other_tell_nothing() -> None:
    one = timing("a", 0, 1, 2, objects=(end(A, B, sent=-9, received=-9),))
    other = timing("b", 0, 1, 2, objects=(end(B, A, sent=-90, received=-40),))
    assert places([one, other]) == [Place(), Place()]


def test_clocks_that_hardly_differ_are_left_alone() -> None:
    one = timing("a", 0, 1, 2, objects=(end(A, B, sent=-9, received=-8),))
    other = timing("b", 0, 1, 2, objects=(end(B, A, sent=-8.3, received=-9.3),))
    assert places([one, other]) == [Place(), Place()]


def test_what_was_not_watched_together_ends_together() -> None:
    assert places([timing("a", 0, 1, 2), timing("b", 300, 301, 302)]) == [Place(later_s=300.0), Place()]


def test_a_long_recording_is_seen_as_far_as_the_short_one_goes() -> None:
    long, short = timing("a", *range(100)), timing("b", 40.2, 41.2, 42.2)
    found = places([long, short])
    assert found == [Place(), Place()]
    assert count([long, short], found) == 3


def rounds_of(host: str, *moments: float) -> list[Snapshot]:
    return [msgspec.structs.replace(snapshot(process(), at=moment), host=host) for moment in moments]


def test_a_round_has_news_of_every_machine() -> None:
    """`a` is looked at every second, `b` every other."""
    streams = [("a", Place(), rounds_of("a", 0, 1, 2, 3, 4)), ("b", Place(), rounds_of("b", 0.5, 2.5, 4.5))]
    for order in (streams, streams[::-1]):
        found = [[row.taken_at and row.taken_at - START for row in each.nodes] for each in joined(order)]
        assert found == [[0.0, 0.5], [2.0, 2.5], [4.0, 4.5]]


# Files


def keep(path: Path, rounds: list[Snapshot]) -> Path:
    with Recorder(path) as recorder:
        for each in rounds:
            recorder.write(each)
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_job_on_three_machines_is_one_job(case: str) -> None:
    """Rank 3 keeps the others waiting, in whatever order the machines are named."""
    causes = {"worker": "worker-stuck", "mismatch": "collective-mismatch", "stop": "stopped"}
    said = set()
    for order in itertools.permutations(recordings(case)):
        found = last(*order).diagnosis
        assert found.verdict is Verdict.HUNG
        (finding,) = found.findings
        assert finding.cause == causes[case]
        assert {row.rank for row in finding.suspects} == {3}
        assert {row.role for row in finding.waiters} >= {f"rank {number}" for number in range(6) if number != 3}
        said.add(encode(finding))
    assert len(said) == 1


def test_connections_between_three_machines_find_both_ends() -> None:
    parts = [Part(host=path.name, snapshot=list(read_recording(path))[-1]) for path in recordings("worker")]
    whole = join(parts)
    linked = {
        row.id: row.peer for row in whole.objects if row.peer and row.peer.partition("@")[2] != row.id.partition("@")[2]
    }
    assert len(linked) >= 12
    assert all(linked[far] == near for near, far in linked.items() if far)
    holders = {row.object: row.pid for row in whole.handles}
    assert all(near in holders for near in linked)


def test_an_hour_between_the_recordings_changes_nothing(tmp_path: Path) -> None:
    """Nor does a clock that is an hour ahead: as long as nothing tells it from a recording that was made an hour later."""
    first, *rest = recordings("stop")

    def late(one: Snapshot) -> Snapshot:
        moved = join([Part(host="h1", offset_s=-HOUR, snapshot=one)])
        return msgspec.structs.replace(one, taken_at=moved.taken_at)

    later = keep(tmp_path / "h1.jsonl", [late(one) for one in read_recording(first)])
    finding = last(later, *rest).diagnosis.findings[0]
    assert (finding.cause, [row.rank for row in finding.suspects]) == ("stopped", [3])


def test_one_machine_twice_is_refused_in_one_sentence() -> None:
    path, *_ = recordings("stop")
    with pytest.raises(UsageError, match=r"cannot be joined: two of them show pid \d+ of h1"):
        list(Recordings([path, path]))


def test_recordings_without_a_round_in_common_are_refused(tmp_path: Path) -> None:
    """Nobody would know what stands and what moves."""
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b'{"schema":"mpmon.recording/1","mpmon":"0","started_at":1.0}\n')
    with pytest.raises(UsageError, match="has no whole round"):
        Recordings([empty, *recordings("stop")])


def test_there_are_as_many_rounds_as_are_counted() -> None:
    found = Recordings(recordings("mismatch"))
    assert found.count() == len(list(found)) >= 3
    assert found.title == "recordings h1.jsonl.gz and 2 more"
