"""The work is done, but the interpreter does not exit.

What it looks like: the main thread has no frame of the script left and is in `threading._shutdown`, an atexit function or the
join of a child; a non-daemon thread waits for something that never comes.
What to do: end the thread (a sentinel in its queue), or make it a daemon; close pools and queues before the script ends.
"""

from __future__ import annotations

from mpmon.diagnosis.advice.circles import for_circle
from mpmon.diagnosis.criteria.crossed_waits import undrained
from mpmon.diagnosis.criteria.parts import after_script
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.responsibility.passed_round import ended_scripts
from mpmon.diagnosis.stacks.waits import Wait, context
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet
from mpmon.diagnosis.suspects import stands_at

CAUSE = "exit-hang"
NEEDS = frozenset({"stacks"})


def match(stuck: StuckSet) -> Match | None:
    """The goal is at interpreter exit, or in library code that runs after it, and waits for its own threads."""
    own = after_script(stuck)
    exiting = [key for key in stuck.closed.path if stuck.wait_state(key).kind is Wait.EXIT or key == own]
    if not exiting or undrained(stuck) or stuck.ending is Ending.GONE or _is_asked(stuck, exiting[-1]):
        return None
    edge = stuck.graph.node(exiting[-1]).edge
    awaited = [key for key in edge.targets if isinstance(key, tuple)] if edge else []
    threads = [key for key in awaited if key[0] == exiting[-1][0]]
    if not threads:
        return _through_children(stuck, exiting[-1])
    ends = stuck.wait_state(exiting[-1]).kind in (Wait.EXIT, Wait.JOIN_THREAD)
    fact = stuck.job.native_facts.get(exiting[-1])
    library = fact.library if fact and fact.leaves else ""
    return Match(
        summary=f"{stuck.job.name(exiting[-1][0])} is done but cannot exit: "
        f"{_unended(stuck, threads) if ends else _undone(stuck, exiting[-1], threads[0])}"
        f"{f'; {fact.called} waits for it' if fact and library else ''}",
        evidence=("MainThread is in threading._shutdown or an exit function; no frame of the script is left",),
        advice=_advice(stuck, threads, library) if ends else for_circle(stuck, stuck.at_end),
        certainty=Certainty.LIKELY,
    )


def _is_asked(stuck: StuckSet, exiting: ThreadKey) -> bool:
    """Another process waits for something that the threads beside the exiting one would send, not for the end."""
    at = stuck.closed.path.index(exiting)
    before = stuck.closed.path[at - 1] if at else exiting
    edge = stuck.graph.node(before).edge
    return before[0] != exiting[0] and edge is not None and edge.of_data


def _unended(stuck: StuckSet, threads: list[ThreadKey]) -> str:
    names = several([stuck.job.thread_words(key) for key in threads])
    place = stands_at(stuck.job, threads[0])
    if len(threads) > 1:
        return f"{names} have not ended{f'; the first is at {place}' if place else ''}"
    return f"{names} has not ended{f'; it is at {place}' if place else ''}"


def _undone(stuck: StuckSet, key: ThreadKey, thread: ThreadKey) -> str:
    place = stands_at(stuck.job, thread)
    there = f"; {stuck.job.thread_words(thread)} is at {place}" if place else ""
    return f"it waits{stuck.at(key)} for {stuck.waits_for(key)}{there}"


def _advice(stuck: StuckSet, threads: list[ThreadKey], library: str) -> tuple[str, ...]:
    if library:
        return (f"Close everything that {library} has open before the script ends.",)
    if any(context(stuck.job.stacks.get(key)) for key in threads):
        return ("Let its task end, and call shutdown(cancel_futures=True) before the script ends.",)
    return ("End the thread before the script ends, or start it with daemon=True.",)


def _through_children(stuck: StuckSet, exiting: tuple[int, int]) -> Match | None:
    """A non-daemon child is joined at exit (multiprocessing.util._exit_function)."""
    if exiting in ended_scripts(stuck):
        return _owes_to_children(stuck, exiting)
    if stuck.ending not in (Ending.LEAF, Ending.EXTERNAL) or stuck.root is None or exiting != stuck.goal:
        return None
    return Match(
        summary=f"{stuck.job.role(exiting[0]).name} is done but cannot exit: its child {stuck.job.full_name(stuck.root[0])} "
        f"has been {stuck.has_been()}",
        evidence=("MainThread is in multiprocessing's exit function, which joins non-daemon children",),
        advice=("End the child before the script ends, or start it with daemon=True.",),
        certainty=Certainty.LIKELY,
    )


def _owes_to_children(stuck: StuckSet, exiting: tuple[int, int]) -> Match | None:
    """What is joined waits for something that only the script would have sent."""
    waiting = [key for key in stuck.at_end if exiting in stuck.targets(key) and key[0] != exiting[0]]
    if not waiting:
        return None
    key, name = waiting[0], stuck.job.name(exiting[0])
    return Match(
        summary=f"the script of {name} has ended, and {name} waits for {stuck.job.name(key[0])} to end, which waits for "
        f"{stuck.waits_for(key)}{stuck.at(key)} that only {name} could send",
        evidence=(
            "MainThread is in multiprocessing's exit function, which joins non-daemon children",
            *stuck.edge_evidence(),
        ),
        advice=(
            f"Search the standard error of {name} for a traceback: multiprocessing joins the children after an error, too.",
            "Send the children their sentinel in a finally block, or start them with daemon=True.",
        ),
        certainty=Certainty.LIKELY,
    )
