"""A library waits in its own native code for something that never comes, and nobody in the job is known to bring it.

What it looks like: a thread stands in a call of a C or C++ library, in a futex that is no lock of Python's; no thread of
the process, native ones included, does any work.
Why: a library joins or waits for a thread of its own that waits itself: a decoder, a driver, a thread pool.
What to do: look at its C and C++ frames, which the report shows; close such objects before the end of their input.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.natives import NativeFact
from mpmon.diagnosis.parts import is_at_exit

CAUSE = "native-hang"
NEEDS = frozenset({"stacks", "blocked", "locks"})


def claim(knot: Knot) -> Claim | None:
    """The root waits in native code, and nobody is left who works in its process."""
    if knot.nobody is None or knot.nobody.reason is not Absent.NATIVE or knot.root is None:
        return None
    if is_at_exit(knot):
        return None
    joined, fact = _joined(knot), knot.native_fact()
    what = f"the end of the native thread {joined}" if joined else _awaited(fact)
    called = f" in {fact.called}" if fact and fact.called else ""
    pid = knot.root[0]
    return Claim(
        summary=f"{knot.role()}{_called_by(knot, knot.root)} has waited{called} for {what} for {knot.for_how_long()}{knot.at()}, "
        "and nothing in its process works",
        evidence=(
            "it sleeps in a futex that is no lock of Python's, and all native threads of the process stand still",
            *((f"the futex has the number of thread {joined}, as in pthread_join",) if joined else ()),
            *knot.edge_evidence(),
        ),
        advice=(
            f"Ask the makers of {fact.library} what {fact.function} waits for."
            if fact and fact.function and fact.wait is None
            else f"Look at all native stacks: mpmon --stacks native {pid}, or, which stops the process, gdb -p {pid}.",
            "Call that library in a process of its own, which can be given up after a while.",
        ),
        certainty=Certainty.LIKELY,
    )


def _called_by(knot: Knot, root: ThreadKey) -> str:
    """For a native thread: in which call of its library somebody waits for it."""
    caller = knot.caller(root)
    fact = knot.case.native_facts.get(caller) if caller else None
    if caller is None or fact is None or not fact.called:
        return ""
    return f", for which {knot.case.role(caller[0]).name} waits in {fact.called}{knot.at(caller)},"


def _awaited(fact: NativeFact | None) -> str:
    return fact.wait.waits_for if fact and fact.wait and fact.certain else "something in native code"


def _joined(knot: Knot) -> int | None:
    """The thread whose end it waits for."""
    found = knot.case.joined_thread(knot.root) if knot.root else None
    return found[1] if found else None
