"""One fault for each shape of job: nobody is accused before, and then the one that was hit, at its line, and nobody else."""

from __future__ import annotations

import pytest

from tests.faults.injecting import FAULTS, Fault, inject

pytestmark = pytest.mark.live

SOME = (
    "train worker1 is stopped",
    "stages keeps",
    "pool fifo",
    "threads keeps",
    "tensors unread",
    "peers unread",
)


def the(words: str) -> Fault:
    return next(fault for fault in FAULTS if str(fault) == words)


@pytest.mark.parametrize("words", SOME)
def test_the_one_that_was_hit_is_named(words: str) -> None:
    if the(words).shape in ("train", "tensors"):
        pytest.importorskip("torch")
    outcome = inject(the(words), seed=len(words))
    assert outcome.finding, outcome.because
    assert outcome.named, (outcome.hit, outcome.finding.summary)
    assert outcome.at_line, (outcome.line, outcome.finding.summary)
    assert (outcome.early, outcome.changed, outcome.late) == (0, 0, 0), outcome.finding.summary
