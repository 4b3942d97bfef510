"""How many collectives the ranks begin each second, where their Flight Recorders were read."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import TrendPoint
from mpmon.diagnosis.throughput.rates import collective_rates
from mpmon.model import FlightRecord, GroupProgress
from mpmon.tui.describe.throughput import throughput
from mpmon.tui.line import text_of_lines
from mpmon.tui.scene import Scene
from tests.tui.fakes import NOW, healthy


def records(at: float, *begun: tuple[int, ...]) -> tuple[FlightRecord, ...]:
    """Of rank 0, 1, …: the numbers of the last collective in each of its groups."""
    return tuple(
        FlightRecord(rank=rank, read_at=NOW + at, groups=tuple(
            GroupProgress(backend="gloo", name=str(name), enqueued=number) for name, number in enumerate(numbers)
        ))
        for rank, numbers in enumerate(begun)
    )  # fmt: skip


def moments(*readings: tuple[FlightRecord, ...]) -> list[TrendPoint]:
    """Each reading stays until the next one."""
    seconds = [
        (second, reading) for number, reading in enumerate(readings) for second in range(30 * number, 30 * number + 30)
    ]
    return [TrendPoint(NOW + second, (), (), {}, flight_records=reading) for second, reading in seconds]


def test_collectives_of_all_groups_between_the_last_two_readings() -> None:
    seen = moments(records(0, (1,), (1,)), records(30, (100, 10), (100, 5)), records(60, (400, 40), (250, 5)))

    assert collective_rates(seen) == {(0, None): pytest.approx(11.0), (1, None): pytest.approx(5.0)}


@pytest.mark.parametrize(
    "readings",
    [(), (records(0, (9,)),), (records(0, (9,)), records(1, (90,))), (records(0, (9,)), records(30, (2,)))],
    ids=["nobody was asked", "asked once", "twice within a moment", "began anew"],
)
def test_where_that_is_not_known(readings: tuple[tuple[FlightRecord, ...], ...]) -> None:
    assert collective_rates(moments(*readings)) == {}


def test_a_healthy_job_shows_it() -> None:
    trend = tuple(moments(records(0, (1,), (1,)), records(30, (331,), (331,))))
    scene = Scene(msgspec.structs.replace(healthy(), trend=trend))

    assert text_of_lines(throughput(scene, 80, most=2)) == "rank 0–1 begin 11.0 collectives/s each\n"
