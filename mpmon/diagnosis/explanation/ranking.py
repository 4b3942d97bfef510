"""Which findings are told, and in which order."""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.explanation.explain import finding
from mpmon.diagnosis.findings import Finding
from mpmon.diagnosis.stuck.stuck_set import StuckSet
from mpmon.diagnosis.verdict.goals import OPENS_GOALS


def ranked(stuck_sets: list[StuckSet]) -> tuple[Finding, ...]:
    """The most certain first. Of findings with common suspects, the most informative one is kept, with the waiters of all.

    A chain that begins with work (a collective, a batch) is more informative than one that begins with a join.
    """
    # Those who wait for the same suspects yield one finding, whatever cause it has from their point of view.
    same: dict[object, list[tuple[int, bool, int, Finding]]] = {}
    for stuck in stuck_sets:
        row = finding(stuck)
        works = stuck.job.wait_state(stuck.goal).kind not in OPENS_GOALS
        same.setdefault(frozenset(row.suspects) or row.cause, []).append(
            (-row.certainty.rank, works, len(row.chain), row)
        )
    best = [_joined(rows) for rows in same.values()]
    whole = [row for row in best if not any(_says_all_of(other, row) for other in best)]
    told = [_with_waiters(row, [other for other in best if _says_all_of(row, other)]) for row in whole]
    return tuple(sorted(told, key=lambda row: row.certainty.rank))


def _joined(rows: list[tuple[int, bool, int, Finding]]) -> Finding:
    *_, shown = max(rows, key=lambda row: row[:3])
    return _with_waiters(shown, [row for *_, row in rows])


def _says_all_of(one: Finding, other: Finding) -> bool:
    """Finding `one` subsumes `other`: the same cause, at least as certain, for a proper superset of the suspects, as when
    ranks that wait together are seen from each rank.
    """
    if one.cause != other.cause or one.certainty.rank > other.certainty.rank:
        return False
    return {row.tid or row.pid for row in one.suspects} > {row.tid or row.pid for row in other.suspects}


def _with_waiters(shown: Finding, others: list[Finding]) -> Finding:
    """Finding `shown`, with the waiters of `others` added unless they are its suspects."""
    suspects = {row.pid for row in shown.suspects}
    waiters = {waiter.pid: waiter for row in (*others, shown) for waiter in row.waiters if waiter.pid not in suspects}
    return msgspec.structs.replace(shown, waiters=tuple(waiters[pid] for pid in sorted(waiters)))
