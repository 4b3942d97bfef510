"""A lock that another thread held at the moment of the fork stays locked forever in the child.

What it looks like: a forked worker waits for a lock of its own process that no thread in that process holds.
Why: fork copies locked locks but not the threads that would unlock them (a thread that logs, reads HDF5, imports …).
What to do: start workers before threads, or with `multiprocessing_context="spawn"` or `"forkserver"`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.libraries.torch_data import LOADER_WORKER
from mpmon.diagnosis.stacks.native_waits import Sort
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "fork-lock"
NEEDS = frozenset({"stacks", "blocked", "locks"})


def _started_otherwise(stuck: StuckSet) -> str:
    if stuck.kind() == LOADER_WORKER:
        return 'Start workers with multiprocessing_context="forkserver" or "spawn".'
    pid = (stuck.root or stuck.goal)[0]
    if stuck.job.role(stuck.job.processes[pid].ppid).kind == "forkserver":
        return "Import in set_forkserver_preload() only what starts no thread and takes no lock."
    return (
        'Start it with multiprocessing.get_context("spawn"); after os.fork(), run another program or only simple code.'
    )


def match(stuck: StuckSet) -> Match | None:
    """A forked child waits for a lock that no thread of its process can hold."""
    if stuck.nobody is None or stuck.nobody.reason is not Absent.LOCKED_AT_FORK:
        return None
    fact = stuck.native_fact()
    in_lock = fact is not None and fact.is_surely(Sort.LOCK)
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for a lock that was taken before the fork: "
        "its holder does not exist in this process",
        evidence=(f"{stuck.role()}: {stuck.nobody.why}",),
        advice=(
            _started_otherwise(stuck),
            "Or start the child before any thread takes that lock.",
        ),
        certainty=Certainty.PROVED if stuck.wait_state().kind is Wait.THREAD_LOCK or in_lock else Certainty.LIKELY,
    )
