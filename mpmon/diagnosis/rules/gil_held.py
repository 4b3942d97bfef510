"""A thread holds the GIL in native code, and the other threads of the process starve.

What it looks like: one thread owns the GIL and does not move, the others ask for it; other ranks wait for this process.
Why: a C extension that does not release the GIL (a regular expression, a driver call, `ctypes.PyDLL`).
What to do: release the GIL in the extension, or run that call in another process.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot, stands_since
from mpmon.diagnosis.needs.threads import starves_others
from mpmon.diagnosis.parts import keeps_gil
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.words import age

CAUSE = "gil-held"
NEEDS = frozenset({"stacks", "blocked"})


def claim(knot: Knot) -> Claim | None:
    """The root is the owner of a GIL that others wait for: it computes in native code, or waits there for something that
    perhaps only those could bring.
    """
    owner = keeps_gil(knot) or _waits_with_gil(knot)
    if owner is None:
        return None
    return Claim(
        summary=f"thread {knot.case.thread_name(owner)} of {knot.case.role(owner[0]).name} has held the GIL for "
        f"{age(knot.case.now - stands_since(knot.case, owner))} in native code{knot.at(owner)}; the other threads of the "
        "process starve",
        evidence=knot.edge_evidence(),
        advice=(
            "Call it in a process of its own (ProcessPoolExecutor).",
            "Or release the GIL around it: Py_BEGIN_ALLOW_THREADS in C, py::gil_scoped_release, ctypes.CDLL, not PyDLL.",
        ),
        certainty=Certainty.LIKELY,
    )


def _waits_with_gil(knot: Knot) -> ThreadKey | None:
    """Code that waits gives the GIL away; one that stands still with it keeps all others from running."""
    rests = (key for key in knot.roots if knot.motion(key) is Motion.FROZEN)
    return next((key for key in rests if starves_others(knot.case, key)), None)
