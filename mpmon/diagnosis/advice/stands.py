"""What to do about a thread that stands in its own code, by what it does there."""

from __future__ import annotations

from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.waits import Wait, opens_pipe
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def for_standing(stuck: StuckSet) -> tuple[str, ...]:
    """Where to look, and what its line needs where `practices` does not say it."""
    look, loop = f"Look{stuck.at() or ' at its line'}.", f"the loop{stuck.at()}"
    if opens_pipe(stuck.blocked()) or stuck.backtracks:
        return (look,)
    if stuck.reads_past_end:
        return (look, "Treat an empty read as the end of the input.")
    if stuck.motion() is Motion.BUSY_LOOP:
        return (f"See why {loop} does not end: it may never meet the condition that ends it.",)
    if stuck.motion() is Motion.POLLING:
        return (f"See what {loop} waits for: its condition does not become true. Let it fail after a time limit.",)
    if stuck.wait_state().kind is Wait.SLEEP:
        return (f"See why it sleeps for so long{stuck.at()}.",)
    if stuck.unread:
        return (look, "With EPOLLET, read until EAGAIN before waiting again.")
    return (look, "Set a time limit on the call it is in.")
