"""The environment variables of a call, in addition to the report that it reads. Pure.

Every call sets all names, to an empty string if unknown, so that a command never inherits a value from elsewhere. `mpmon
explain alerts` documents them.
"""

from __future__ import annotations

from datetime import datetime, timezone

from mpmon.alarm.hangs import Call
from mpmon.diagnosis.explanation.brief import job_id, plain
from mpmon.diagnosis.findings import Observation


def variables(call: Call, observation: Observation) -> dict[str, str]:
    """By name."""
    snapshot, about = observation.snapshot, call.about
    seconds = max(0.0, snapshot.taken_at - call.since) if call.since is not None else None
    return {
        "MPMON_EVENT": call.event,
        "MPMON_PID": "" if snapshot.nodes else str(snapshot.root_pid),
        "MPMON_JOB_ID": job_id(snapshot),
        "MPMON_HOST": about.host or plain(snapshot.host),
        "MPMON_CAUSE": about.cause,
        "MPMON_CERTAINTY": about.certainty,
        "MPMON_SUSPECT": about.role,
        "MPMON_SUSPECT_PID": about.pid,
        "MPMON_RANK": about.rank,
        "MPMON_FUNCTION": about.function,
        "MPMON_AT": about.at,
        "MPMON_SINCE": "" if call.since is None else _moment(call.since),
        "MPMON_SECONDS": "" if seconds is None else f"{seconds:.0f}",
    }


def _moment(seconds: float) -> str:
    """ISO 8601 in UTC: `2026-01-01T12:04:31Z`."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
