"""The interval between rounds, if the user has not set one.

A screen is open for hours on a healthy job, and costs what its rounds cost; so a healthy job is sampled every two
seconds, as by nvitop (htop: 1.5, top: 3), and a job of hundreds of processes less often, so that it costs no more.
Every second counts only if something may be wrong: once a program stands still, however briefly, rounds come every
second until the reason is known.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Diagnosis, Verdict

SOON_S = 1.0
"""Interval in seconds if something may be wrong: two samples a second apart show whether a thread stands still."""

CALM_S, LONGEST_S = 2.0, 4.0
"""Shortest and longest interval for a healthy job, seconds; the cost of a round decides."""

SHARE = 0.006
"""Share of a CPU that rounds may take, unless `LONGEST_S` is reached."""

REMEMBERED = 8
"""Rounds over which the cost is averaged: now and then a round has more to do."""

CALM_AFTER_S = 20.0
"""Seconds during which the job is new to mpmon: its speeds and stragglers are still being determined."""


def interval_s(diagnosis: Diagnosis, watched_s: float, cost_s: float) -> float:
    """Seconds between this round and the next one; `cost_s` is the CPU time of a round."""
    stands = diagnosis.since is not None
    is_well = diagnosis.verdict is Verdict.HEALTHY and not stands
    calm_s = min(max(CALM_S, cost_s / SHARE), LONGEST_S)
    return calm_s if is_well and watched_s >= CALM_AFTER_S else SOON_S


def levelled(cost_s: float, latest_s: float) -> float:
    """The averaged CPU time of a round, updated by the latest one, seconds."""
    return cost_s + (latest_s - cost_s) / REMEMBERED
