"""A breakpoint or prompt waits for input.

What it looks like: a thread is in pdb, `breakpoint()` or `input()`, reading a terminal, a pipe or /dev/null that nobody
writes to; the others wait for this process.
Why: a breakpoint was left in the code; in a worker or a rank, standard input is not the terminal.
What to do: answer it, if it has a terminal. Remove the breakpoint, or run that part with `num_workers=0` or a single rank.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.parts import at_terminal
from mpmon.diagnosis.criteria.signs import prompts
from mpmon.diagnosis.responsibility.streams import unanswered_prompt
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "debugger"
NEEDS = frozenset({"stacks", "blocked"})


def match(stuck: StuckSet) -> Match | None:
    """The root is at a debugger's prompt, or asks at a terminal while others need it, or all writers to a member's `input()` are
    stuck.
    """
    asks = stuck.wait_state().kind is not Wait.DEBUGGER
    if asks and not at_terminal(stuck):
        return _unanswered(stuck)
    prompt = "prompts at its terminal" if asks else "is at a debugger's prompt"
    return Match(
        summary=f"{stuck.role()} {prompt}{stuck.at()} and waits for input",
        evidence=(
            f"{stuck.role()} has {'waited for' if asks else 'been in'} {stuck.wait_state().words} for {stuck.for_how_long()}",
        ),
        advice=(
            *((f"Answer it at its terminal{'' if asks else ': c continues'}.",) if _has_terminal(stuck) else ()),
            "Remove the breakpoint() or input(), or run this part alone (num_workers=0, one rank).",
        ),
    )


def _has_terminal(stuck: StuckSet) -> bool:
    items = stuck.job.waits_on(stuck.root) if stuck.root else ()
    return bool(items) and all(item.kind == "terminal" for item in items)


def _unanswered(stuck: StuckSet) -> Match | None:
    """`input()` from a pipe whose only writers are stuck themselves: they wait for the end or output of its reader."""
    asks = unanswered_prompt(stuck)
    if asks is None or not prompts(stuck):
        return None
    writers = [key for key in stuck.targets(asks) if isinstance(key, tuple)]
    name, parent = (stuck.job.name(key[0]) for key in (asks, writers[0]))
    return Match(
        summary=f"{name} reads its standard input{stuck.at(asks)}, a pipe that only {parent} could write to, "
        f"and {parent} waits for {stuck.waits_for(writers[0])}",
        evidence=stuck.edge_evidence(),
        advice=(
            "Close or redirect its standard input (stdin=subprocess.DEVNULL), or pass the answer with communicate().",
        ),
    )
