"""mpmon attached to a launcher that starts its ranks again: the new ones are who the old ones were."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Observation
from mpmon.probes import pidfds
from mpmon.probes.files import Proc
from mpmon.session.sampler import Sampler
from mpmon.session.watch import LiveWatch
from tests.live.running import LONGEST_S, Program
from tests.patience import patience

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]


def ranks(observation: Observation) -> dict[str, int]:
    """The living ones, by role."""
    alive = {row.pid for row in observation.snapshot.processes if not row.ended}
    return {
        view.role: view.pid for view in observation.diagnosis.processes if view.rank is not None and view.pid in alive
    }


def test_ranks_that_are_started_again(tmp_path: Path) -> None:
    with Program("restarted_ranks.py", str(tmp_path / "go")).hear("first0", "first1") as program:
        watch = LiveWatch(lambda now: Sampler(Proc(), program.pid, now=now, host="host"), interval=0.2)
        last: Observation | None = None
        left = patience(LONGEST_S)
        for last in watch:
            if ranks(last) == {f"rank {n}": program.pids[f"first{n}"] for n in (0, 1)}:
                (tmp_path / "go").touch()
            again = any(event.kind == "restarted" for event in last.events) and len(ranks(last)) == 2
            if again or next(left, None) is None:
                watch.stop()
        assert last is not None
        program.hear("again0", "again1")
        assert ranks(last) == {f"rank {n}": program.pids[f"again{n}"] for n in (0, 1)}
        told = {event.kind: event for event in last.events}
        assert set(told["restarted"].pids) <= set(ranks(last).values())
        if pidfds._kernel() >= pidfds.SINCE:
            died = [event.summary for event in last.events if event.kind == "died"]
            assert f"rank 1 (pid {program.pids['first1']}) ended with exit status 3" in died
