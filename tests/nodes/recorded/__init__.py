"""Jobs of six ranks on three machines, two on each, recorded on each by hand; each rank has a DataLoader with one worker.

The machines were network, pid, mount and UTS namespaces of one, joined by a bridge, and the ranks talk over gloo.  In all of
them rank 3, on `h2`, keeps the others waiting: its worker opens a FIFO (`worker`), it is in `barrier` while the others are in
`all_reduce` (`mismatch`), it was stopped by a signal (`stop`).

Two more are of two ranks on two machines: `link` is `tests/nodes/train.py` after the cable of `h2` was cut, `slow-reader` is
`tests/nodes/stream.py`, which works.
"""

from __future__ import annotations

from pathlib import Path

from mpmon.diagnosis.findings import Observation
from mpmon.session.watch import ReplayWatch

HOME = Path(__file__).parent
CASES = ("worker", "mismatch", "stop")
HOSTS = ("h1", "h2", "h3")


def recordings(case: str) -> list[Path]:
    """One of each machine."""
    return [HOME / case / f"{host}.jsonl.gz" for host in HOSTS]


def last(*paths: Path) -> Observation:
    """What is said in the end of a recording, or of several joined."""
    return list(ReplayWatch(*paths, at_once=True))[-1]
