"""What is said of ranks that are in different collectives: each once, and the odd one where one looks for it."""

from __future__ import annotations

from mpmon.diagnosis.findings import Finding
from mpmon.session.watch import ReplayWatch
from tests.hangs.expected import HOME


def finding(job: str) -> Finding:
    *_, last = ReplayWatch(HOME / job / "recording.jsonl.gz", at_once=True)
    return last.diagnosis.findings[0]


def test_each_is_told_once_the_odd_one_first() -> None:
    """Nor is it told once more of the one from which the hang is seen that it waits."""
    assert finding("early-stop-rank0").summary == (
        "ranks are in different collectives: rank 0 in all_gather_object at trainer.py:60 in Trainer.summarize; "
        "ranks 1-3 in all_reduce at trainer.py:27 in Trainer.reduce_grads"
    )


def test_who_is_told_of_by_another_name_is_still_told_what_it_waits_for() -> None:
    assert finding("early-stop-one-rank").summary.endswith("; rank 0 waits for all_reduce with rank 1")
