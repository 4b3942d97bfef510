"""The work is done, but the interpreter does not exit.

What it looks like: the main thread has no frame of the script left and stands in `threading._shutdown`, an atexit
function or the join of a child; a thread that is not a daemon waits for something that never comes.
What to do: end the thread (a sentinel in its queue), or make it a daemon; close pools and queues before the end.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.frames import is_user
from mpmon.diagnosis.knot import Claim, Ending, Knot
from mpmon.diagnosis.parts import undrained
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

CAUSE = "exit-hang"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """The goal is at interpreter exit, or in what a library does after it, and waits for its own threads."""
    exiting = [key for key in knot.closed.path if knot.standing(key).kind is Wait.EXIT or _is_after_script(knot, key)]
    if not exiting or undrained(knot) or knot.ending not in (
        Ending.OPEN, Ending.CYCLE, Ending.NOBODY, Ending.LEAF, Ending.OUTSIDE,
    ):  # fmt: skip
        return None
    need = knot.graph.node(exiting[-1]).need
    awaited = [key for key in need.targets if isinstance(key, tuple)] if need else []
    threads = [key for key in awaited if key[0] == exiting[-1][0]]
    if not threads:
        return _through_children(knot, exiting[-1])
    names = several([knot.case.thread_words(key) for key in threads])
    place = knot.case.place(threads[0])
    fact = knot.case.native_facts.get(exiting[-1])
    library = fact.library if fact and fact.leaves else ""
    return Claim(
        summary=f"{knot.case.role(exiting[-1][0]).name} is done but cannot exit: {names} does not end"
        f"{f', it stands at {place}' if place else ''}{f'; {fact.called} waits for it' if fact and library else ''}",
        evidence=("MainThread is in threading._shutdown or an exit function; no frame of the script is left",),
        advice=(
            f"Close what {library} has open before the end of the script."
            if library
            else "End the thread before the end of the script, or start it with daemon=True.",
        ),
        certainty=Certainty.LIKELY,
    )


def _is_after_script(knot: Knot, key: tuple[int, int]) -> bool:
    """The main thread in a function of atexit: no frame of a module is left below it."""
    stack = knot.case.stacks.get(key) if key[0] == key[1] else None
    outermost = stack.frames[-1] if stack and stack.frames else None
    joins = knot.standing(key).kind is Wait.JOIN_THREAD
    return joins and outermost is not None and outermost.function != "<module>" and is_user(outermost.file)


def _through_children(knot: Knot, exiting: tuple[int, int]) -> Claim | None:
    """A child that is not a daemon is joined at exit (multiprocessing.util._exit_function)."""
    if knot.ending not in (Ending.LEAF, Ending.OUTSIDE) or knot.root is None or exiting != knot.goal:
        return None
    return Claim(
        summary=f"{knot.case.role(exiting[0]).name} is done but cannot exit: its child {knot.role()} (pid {knot.root[0]}) "
        f"has been {knot.has_been()}",
        evidence=("MainThread is in multiprocessing's exit function, which joins children that are not daemons",),
        advice=("End the child before the end of the script, or start it with daemon=True.",),
        certainty=Certainty.LIKELY,
    )
