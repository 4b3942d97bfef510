"""A thread holds the GIL in native code, and the other threads of the process starve.

What it looks like: one thread owns the GIL and does not move, the others ask for it; other ranks wait for this process.
Why: a C extension that does not release the GIL (a regular expression, a driver call, `ctypes.PyDLL`).
What to do: release the GIL in the extension, or run that call in another process.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Ending, Knot

CAUSE = "gil-held"
NEEDS = frozenset({"stacks", "blocked"})


def claim(knot: Knot) -> Claim | None:
    """The root is the owner of a GIL that others wait for."""
    if knot.ending is not Ending.LEAF or knot.root is None or len(knot.closed.path) < 2:
        return None
    stack, waiter = knot.case.stacks.get(knot.root), knot.closed.path[-2]
    if stack is None or not stack.owns_gil or waiter[0] != knot.root[0]:
        return None
    return Claim(
        summary=f"thread {knot.case.thread_name(knot.root)} of {knot.role()} has held the GIL for {knot.for_how_long()} in "
        f"native code{knot.at()}; the other threads of the process starve",
        evidence=knot.edge_evidence(),
        advice=(
            "Call it in a process of its own (ProcessPoolExecutor).",
            "Or release the GIL around it: Py_BEGIN_ALLOW_THREADS in C, py::gil_scoped_release, ctypes.CDLL, not PyDLL.",
        ),
        certainty=Certainty.LIKELY,
    )
