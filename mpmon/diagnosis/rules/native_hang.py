"""A library waits in its own native code for something that never comes, and nothing in the job is known to provide it.

What it looks like: a thread is in a call of a C or C++ library, in a futex that is not one of Python's locks; no thread of
the process, native ones included, does any work.
Why: a library joins or waits for one of its own threads that is waiting itself: a decoder, a driver, a thread pool.
What to do: look at its C and C++ frames in the report; close such objects before their input ends.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.parts import is_at_exit
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.stacks.natives import NativeFact
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "native-hang"
NEEDS = frozenset({"stacks", "blocked", "locks"})


def match(stuck: StuckSet) -> Match | None:
    """The root waits in native code, and no thread of its process does any work."""
    if stuck.nobody is None or stuck.nobody.reason is not Absent.NATIVE or stuck.root is None:
        return None
    if is_at_exit(stuck):
        return None
    joined, fact = _joined(stuck), stuck.native_fact()
    what = f"the end of the native thread {joined}" if joined else _awaited(fact)
    called = f" in {fact.called}" if fact and fact.called else ""
    pid = stuck.root[0]
    return Match(
        summary=f"{stuck.role()}{_called_by(stuck, stuck.root)} has waited{called} for {what} "
        f"for {stuck.for_how_long()}{stuck.at()}, "
        "and no thread of its process does any work",
        evidence=(
            "it sleeps in a futex that is not one of Python's locks, and no native thread of the process runs",
            *((f"the futex holds the id of thread {joined}, as in pthread_join",) if joined else ()),
            *stuck.edge_evidence(),
        ),
        advice=(
            f"Ask the developers of {fact.library} what {fact.function} waits for."
            if fact and fact.function and fact.wait is None
            else f"Look at all native stacks: mpmon --stacks native {pid}, or, which stops the process, gdb -p {pid}.",
            "Call that library in a separate process, which can be killed after a timeout.",
        ),
        certainty=Certainty.LIKELY,
    )


def _called_by(stuck: StuckSet, root: ThreadKey) -> str:
    """For a native thread, in words: the library call in which a Python thread waits for it; empty if unknown."""
    caller = stuck.caller(root)
    fact = stuck.job.native_facts.get(caller) if caller else None
    if caller is None or fact is None or not fact.called:
        return ""
    return f", for which {stuck.job.name(caller[0])} waits in {fact.called}{stuck.at(caller)},"


def _awaited(fact: NativeFact | None) -> str:
    return fact.wait.waits_for if fact and fact.wait and fact.certain else "something in native code"


def _joined(stuck: StuckSet) -> int | None:
    """The id of the native thread that the root joins."""
    found = stuck.job.joined_thread(stuck.root) if stuck.root else None
    return found[1] if found else None
