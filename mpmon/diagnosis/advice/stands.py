"""What to do about a thread that stands in its own code, by what it does there."""

from __future__ import annotations

from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.waits import Wait, opens_pipe
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def for_standing(stuck: StuckSet) -> tuple[str, ...]:
    """What its line needs; nothing where `practices` says it."""
    if opens_pipe(stuck.blocked()) or stuck.backtracks:
        return ()
    if stuck.motion() is Motion.BUSY_LOOP:
        return ("Bound the loop: it may never meet the condition that ends it.",)
    if stuck.motion() is Motion.POLLING:
        return ("Look at what its loop tests, which does not become true; end the loop with an error after a while.",)
    if stuck.wait_state().kind is Wait.SLEEP:
        return ("Look at why it sleeps for so long.",)
    return ("Set a time limit on the call it is in.",)
