"""What is a cause by itself, however the waits of a stuck set are shaped.

Rules that go by the shape of the waits (a circle, the part that the end of a chain plays) leave these to the rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from mpmon.diagnosis.criteria.crossed_waits import kept_until_end, undrained, unread
from mpmon.diagnosis.responsibility.ended import polled_for
from mpmon.diagnosis.responsibility.servers import left_connection, loop_keeper
from mpmon.diagnosis.responsibility.streams import kept_ends, unanswered_prompt
from mpmon.diagnosis.stuck.crashed_siblings import crashed_mates
from mpmon.diagnosis.stuck.dropped_items import dropped
from mpmon.diagnosis.stuck.joinable_queue import own_tasks
from mpmon.diagnosis.stuck.links import stalls
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def has_sign(stuck: StuckSet) -> bool:
    """One of them holds of the stuck set."""
    return any(sign(stuck) for sign in SIGNS)


def prompts(stuck: StuckSet) -> bool:
    """A Python thread waits for its standard input, which nobody will write; of other programs it is unknown whether they ask."""
    return unanswered_prompt(stuck) in stuck.job.stacks


SIGNS: tuple[Callable[[StuckSet], object], ...] = (
    crashed_mates, dropped, own_tasks, kept_until_end, stalls, left_connection, loop_keeper, undrained, unread, kept_ends,
    prompts, polled_for,
)  # fmt: skip
