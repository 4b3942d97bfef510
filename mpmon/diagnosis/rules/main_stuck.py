"""The main process, or a thread of it, is stuck in its own code.

What it looks like: its workers, if it has any, wait for work, and nobody waits for them; the thread is in a busy loop or
sleeps in the user's code, for a DataLoader often in the sampler.
Why: a loop that never finds a matching sample, a poll for a file or flag that never comes.
What to do: look at the main thread's line; bound the loop.
"""

from __future__ import annotations

from mpmon.diagnosis.advice.stands import for_standing
from mpmon.diagnosis.criteria.parts import Part, part
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.humanize import age
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import bare
from mpmon.diagnosis.stacks.waits import Context
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet, doing, stands_since

CAUSE = "main-stuck"
NEEDS = frozenset({"stacks"})


def match(stuck: StuckSet) -> Match | None:
    """The chain ends in the main thread's own code, or leads back to a signal handler that interrupted it."""
    if found := _in_handler(stuck):
        return found
    if part(stuck) is not Part.PROGRAM:
        return None
    sampler = stuck.context() is Context.SAMPLER
    where = " (in the DataLoader's sampler)" if sampler else ""
    spins = stuck.motion() is Motion.BUSY_LOOP
    if stuck.outside is not None and stuck.outside.reason is Absent.INHERITED:
        return _reads_output(stuck)
    return Match(
        summary=f"{stuck.role()} has been {stuck.has_been()}{where}{stuck.in_detail()}",
        evidence=(
            stuck.burning() if spins else f"{stuck.role()} stays at the same line",
            *stuck.edge_evidence(),
        ),
        advice=for_standing(stuck),
        certainty=Certainty.LIKELY if sampler or stuck.motion() is Motion.NOT_SCHEDULED else Certainty.POSSIBLE,
    )


def _reads_output(stuck: StuckSet) -> Match:
    """A program that a subprocess left in the background keeps the pipe open that it writes its output to."""
    evidence = stuck.edge_evidence()
    return Match(
        summary=f"{stuck.role()} waits{stuck.at()} for {stuck.waits_for(stuck.root or stuck.goal)}: {evidence[0]}",
        evidence=evidence,
        advice=("Redirect the output of what runs on in the background: `program >/dev/null 2>&1 &`.",),
        certainty=Certainty.LIKELY,
    )


def _in_handler(stuck: StuckSet) -> Match | None:
    """A signal handler waits for threads that wait for the code it interrupted."""
    if stuck.in_handler is None:
        return None
    key, wait = stuck.in_handler
    name, lasts = stuck.job.name(key[0]), age(stuck.job.now - stands_since(stuck.job, key))
    return Match(
        summary=f"{name} has been {doing(stuck.job, key, lasts)}: a signal handler that interrupted it waits for "
        f"{stuck.waits_for(key)}",
        evidence=(
            f"{bare(wait.function)} of {wait.file.rpartition('/')[2]} calls no user code: a signal handler runs above it",
            *stuck.edge_evidence(),
        ),
        advice=("Never wait in a signal handler: os.waitpid(-1, os.WNOHANG) until it returns 0, or set a flag.",),
        certainty=Certainty.LIKELY,
    )
