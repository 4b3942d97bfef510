"""A breakpoint or prompt waits for somebody to type, where nobody can.

What it looks like: a thread stands in pdb, `breakpoint()` or `input()`, reading a terminal, a pipe or /dev/null that
nobody writes to; the others wait for this process.
Why: a breakpoint left in the code; in a worker or a rank standard input is not the terminal.
What to do: take the breakpoint out, or run that part with `num_workers=0` or one rank.
"""

from __future__ import annotations

from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.responsibility import unanswered_prompt
from mpmon.diagnosis.waits import Wait

CAUSE = "debugger"
NEEDS = frozenset({"stacks", "blocked"})


def claim(knot: Knot) -> Claim | None:
    """The root stands in a debugger's prompt."""
    if knot.standing().kind is not Wait.DEBUGGER:
        return _unanswered(knot)
    return Claim(
        summary=f"{knot.role()} is at a debugger's prompt{knot.at()} and waits for somebody to type",
        evidence=(f"{knot.role()} is in {knot.standing().words} since {knot.for_how_long()}",),
        advice=("Remove the breakpoint() or input(), or run this part alone (num_workers=0, one rank).",),
    )


def _unanswered(knot: Knot) -> Claim | None:
    """`input()` from a pipe, whose only writers are stuck themselves: they wait for the end or output of the one that asks."""
    asks = unanswered_prompt(knot)
    writers = [key for key in knot.targets(asks) if isinstance(key, tuple)] if asks else []
    if asks is None:
        return None
    name, parent = (knot.case.role(key[0]).name for key in (asks, writers[0]))
    return Claim(
        summary=f"{name} reads its standard input{knot.at(asks)}, a pipe that only {parent} could write to, "
        f"and {parent} waits for {knot.waits_for(writers[0])}",
        evidence=knot.edge_evidence(),
        advice=(
            "Close or redirect its standard input (stdin=subprocess.DEVNULL), or pass the answer with communicate().",
        ),
    )
