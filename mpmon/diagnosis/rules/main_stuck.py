"""The process that everybody serves does not return from its own code; its workers are idle.

What it looks like: workers wait for work, nobody waits for them; the main thread spins or sleeps in the user's code, for
a DataLoader often in the sampler.
Why: a loop that looks for ever for a sample that fits, a poll for a file or flag that never comes.
What to do: look at the main thread's line; bound the loop.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.frames import bare
from mpmon.diagnosis.knot import Claim, Knot, doing, stands_since
from mpmon.diagnosis.parts import Part, part
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.waits import Context
from mpmon.diagnosis.words import age

CAUSE = "main-stuck"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """The chain ends in the main thread's own code, or comes back to a handler of a signal that interrupted it."""
    if found := _in_handler(knot):
        return found
    if part(knot) is not Part.PROGRAM:
        return None
    sampler = knot.context() is Context.SAMPLER
    where = " (in the DataLoader's sampler)" if sampler else ""
    spins = knot.motion() is Motion.SPINNING
    return Claim(
        summary=f"{knot.role()} has been {knot.has_been()}{where}",
        evidence=(
            knot.burning() if spins else f"{knot.role()} stands at the same line",
            *knot.edge_evidence(),
        ),
        advice=("Look at that line; bound the loop or the wait.",),
        certainty=Certainty.LIKELY if sampler or knot.motion() is Motion.FROZEN else Certainty.POSSIBLE,
    )


def _in_handler(knot: Knot) -> Claim | None:
    """A handler waits for those who wait for what it interrupted."""
    if knot.in_handler is None:
        return None
    key, wait = knot.in_handler
    name, lasts = knot.case.role(key[0]).name, age(knot.case.now - stands_since(knot.case, key))
    return Claim(
        summary=f"{name} has been {doing(knot.case, key, lasts)}: a handler of a signal, which interrupted it, waits for "
        f"{knot.waits_for(key)}",
        evidence=(
            f"{bare(wait.function)} of {wait.file.rpartition('/')[2]} calls nobody's code: a handler of a signal runs above it",
            *knot.edge_evidence(),
        ),
        advice=("Never wait in a handler of a signal: os.waitpid(-1, os.WNOHANG) until it returns 0, or set a flag.",),
        certainty=Certainty.LIKELY,
    )
