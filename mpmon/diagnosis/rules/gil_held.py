"""A thread holds the GIL in native code, and the other threads of the process starve.

What it looks like: one thread holds the GIL and makes no progress, the other threads request it; other ranks wait for this
process.
Why: a C extension that does not release the GIL (a regular expression, a driver call, `ctypes.PyDLL`).
What to do: release the GIL in the extension, or run that call in another process.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.parts import keeps_gil
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.humanize import age
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet, stands_since

CAUSE = "gil-held"
NEEDS = frozenset({"stacks", "blocked"})


def match(stuck: StuckSet) -> Match | None:
    """The root owns a GIL that other threads wait for: it computes in native code, or waits there for something that
    perhaps only those threads could provide.
    """
    owner = keeps_gil(stuck)
    if owner is None:
        return None
    return Match(
        summary=f"{stuck.job.thread_words(owner)} of {stuck.job.name(owner[0])} has held the GIL for "
        f"{age(stuck.job.now - stands_since(stuck.job, owner))} in native code{stuck.at(owner)}; the other threads of the "
        "process starve",
        evidence=stuck.edge_evidence(),
        advice=(
            "Call it in a separate process (ProcessPoolExecutor).",
            "Or release the GIL around it: Py_BEGIN_ALLOW_THREADS in C, py::gil_scoped_release, ctypes.CDLL instead of PyDLL.",
        ),
        certainty=Certainty.LIKELY,
    )
