"""The holder of a lock is itself stuck or busy elsewhere.

What it looks like: processes or threads wait for a lock, or keep retrying the lock of a file (the filelock package, SQLite);
its holder sleeps, waits for I/O or an event, or computes.
Why: slow work inside `with lock:`; a child forked inside the `with` block, which inherits the file lock.
What to do: move the slow work out of the lock; give the lock a timeout.
"""

from __future__ import annotations

from mpmon.diagnosis.advice.stands import for_standing
from mpmon.diagnosis.criteria.crossed_waits import kept_until_end
from mpmon.diagnosis.criteria.parts import waiter_for_lock
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent, NoReleaser
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "lock-held"
NEEDS = frozenset({"blocked", "semaphores", "locks"})


def match(stuck: StuckSet) -> Match | None:
    """The last edge before the root is a lock with a known holder."""
    if found := kept_until_end(stuck):
        return _until_the_end(stuck, *found)
    if stuck.nobody and stuck.nobody.reason is Absent.INHERITED:
        return _inherited(stuck, stuck.nobody)
    waiter = waiter_for_lock(stuck)
    if waiter is None:
        return None
    beside = stuck.root is not None and waiter[0] == stuck.root[0]
    name = stuck.job.thread_words(waiter) if beside else stuck.job.name(waiter[0])
    idle = stuck.wait_state().idle
    does = "does nothing that would release it: it has been" if idle else "has been"
    what = "a permit" if stuck.job.permit_wanted(waiter) else "the lock"
    return Match(
        summary=f"{stuck.role()} holds {what} that {name} waits for{stuck.at(waiter)}, and {does} {stuck.has_been()}",
        evidence=stuck.edge_evidence(),
        advice=_LEFT if idle else (_OUTSIDE, *for_standing(stuck)),
        tells_of=frozenset({waiter}),
    )


_LEFT = (
    "Release it on every path, using `with`: an exception may have skipped release().",
    "A generator keeps what it took until it is run to its end or closed.",
)
_OUTSIDE = "Do the slow work outside the lock, or take the lock with a timeout."


def _inherited(stuck: StuckSet, nobody: NoReleaser) -> Match:
    """The holder was started while its parent held the lock, or had the pipe's end open."""
    heirs, alone = stuck.job.names(nobody.blame), len(nobody.blame) == 1
    keep, were, their = (f"{heirs} keeps", "it was", "its") if alone else (f"{heirs} keep", "they were", "their")
    until, role = "it ends" if alone else "the last of them ends", stuck.role()
    if stuck.wait_state().kind is Wait.FILE_LOCK:
        summary = (
            f"{keep} the lock that {role} waits for, without using it: {were} forked while the file was locked, and {their} "
            f"copy of the open file keeps the lock until {until}"
        )
        advice = _OF_LOCK
    elif stuck.wait_state().kind is Wait.JOIN_PROCESS:
        summary = (
            f"{heirs} {'was' if alone else 'were'} left in the background by a subprocess that has ended, and still "
            f"{'has' if alone else 'have'} its output pipe open: {role} reads from it until {until}"
        )
        advice = _OF_OUTPUT
    else:
        summary = (
            f"{keep} the standard input of {role} open, without using it: {were} forked while the pipe was open, and {role} "
            f"sees no end of its input until {until}"
        )
        advice = _OF_PIPE
    return Match(summary=summary, evidence=(nobody.why, *stuck.edge_evidence()), advice=advice)


_OF_LOCK = (
    "Start children outside of the lock, or close the file in the child.",
    "Release with flock(LOCK_UN), which releases it for all copies; closing the file does not while a child has it open.",
)
_OF_PIPE = (
    "Start the program after the fork, or start the other process with spawn, which inherits no pipes.",
    "Or close the pipe in the child.",
)
_OF_OUTPUT = (
    "Redirect the output of what runs on in the background: `program >/dev/null 2>&1 &`, or stdout=subprocess.DEVNULL.",
)


def _until_the_end(stuck: StuckSet, waiter: ThreadKey, holder: ThreadKey, ender: ThreadKey) -> Match:
    """The holder waits for an event from a thread that waits for the others to end."""
    return Match(
        summary=f"{_name(stuck, holder)} holds the lock that {_name(stuck, waiter)} waits for, and waits for "
        f"{stuck.wait_state(holder).words}{stuck.at(holder)}, while {_name(stuck, ender)} waits for {stuck.waits_for(ender)}",
        evidence=stuck.edge_evidence(),
        advice=("Release the lock before waiting: a child forked inside `with lock` holds it too.",),
        certainty=Certainty.LIKELY,
    )


def _name(stuck: StuckSet, key: ThreadKey) -> str:
    return stuck.job.name(key[0])
