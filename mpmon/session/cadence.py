"""How soon to look again at a job whose user has not said how often.

A screen is open for hours on a job that is well, and costs what its rounds cost; so such a job is looked at every two seconds,
which is what nvitop does (htop: 1.5, top: 3), and one of hundreds of processes less often, so that it costs no more.  Every
second counts only where something may be wrong: from the round in which a program stands still, however shortly, rounds come
every second until it is known what that is.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Diagnosis, Verdict

SOON_S = 1.0
"""Two looks a second apart show whether a thread stands still."""

CALM_S, LONGEST_S = 2.0, 4.0
"""Of a job that is well: at least and at most, by what a round costs."""

SHARE = 0.006
"""Of a CPU: what its rounds may take, as long as they need not be further apart than that."""

REMEMBERED = 8
"""Rounds over which their cost is levelled: now and then one has more to do."""

CALM_AFTER_S = 20.0
"""Until then the job is new to mpmon: speeds and stragglers are being found out."""


def interval_s(diagnosis: Diagnosis, watched_s: float, cost_s: float) -> float:
    """Seconds between this round and the next one; `cost_s` is the CPU time of one."""
    stands = diagnosis.since is not None
    is_well = diagnosis.verdict is Verdict.HEALTHY and not stands
    calm_s = min(max(CALM_S, cost_s / SHARE), LONGEST_S)
    return calm_s if is_well and watched_s >= CALM_AFTER_S else SOON_S


def levelled(cost_s: float, latest_s: float) -> float:
    """The CPU time of a round after one more, seconds."""
    return cost_s + (latest_s - cost_s) / REMEMBERED
