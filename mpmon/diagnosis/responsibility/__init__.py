"""Which members of a stuck set are responsible, by the kinds of their waits.

If the chain ends, its end is responsible: a leaf, an exited process, or the process whose part nobody does (`OF_THE_END`).  If it
does not end, because all members wait for one another, the kinds of their waits decide (`OF_EACH_OTHER`).  Both are tables of
ways to be responsible, of which the first that applies counts; each way says in its docstring when it does.  If none applies,
all members wait for the same kind of thing, and the one that each of the others needs is responsible, or else all of them.

- `ended`: those that have ended; `parties`: those that never enter a barrier;
- `streams`: of pipes, sockets and queues; `passed_round`: of items, permits and locks;
- `servers`: of servers, their clients and event loops; `tasks`: of tasks, and of the threads of one process;
- `members`: what the members of a stuck set need of one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpmon.diagnosis.edges.gil import starves_others
from mpmon.diagnosis.findings import Suspect
from mpmon.diagnosis.graph import Absent, Ending, NoReleaser
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.responsibility.ended import lost_holder, lost_producers, polled_for, those_gone
from mpmon.diagnosis.responsibility.parties import absent_party
from mpmon.diagnosis.responsibility.passed_round import (
    holders_of_locks,
    keepers_of_permits,
    owing_items,
    whose_end_is_awaited,
)  # fmt: skip
from mpmon.diagnosis.responsibility.servers import (
    exchanging,
    hub,
    left_connection,
    loop_keeper,
    not_accepting,
    owing_answers,
    takers,
)  # fmt: skip
from mpmon.diagnosis.responsibility.streams import keepers_of_ends, makers_of_room, starters, unanswered_prompt
from mpmon.diagnosis.responsibility.tasks import (
    awaited_tasks,
    joining_threads,
    stuck_inside,
    unfinished_tasks,
)  # fmt: skip
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.collectives import Differs, split
from mpmon.diagnosis.stuck.crashed_siblings import crashed_mates
from mpmon.diagnosis.stuck.dropped_items import dropped
from mpmon.diagnosis.stuck.joinable_queue import own_tasks
from mpmon.diagnosis.stuck.links import stalls
from mpmon.diagnosis.stuck.meeting import meeting
from mpmon.diagnosis.stuck.stuck_set import StuckSet
from mpmon.diagnosis.suspects import suspect

Blame = Sequence[ThreadKey | int]
"""Threads, and pids of processes that have ended."""


def responsible(stuck: StuckSet) -> tuple[Suspect, ...]:
    """The responsible threads, or processes if they have ended; empty if no process of the job is to blame."""
    return tuple(suspect(stuck.job, who) for who in _blamed(stuck))


def _blamed(stuck: StuckSet) -> Blame:
    told = of_the_end(stuck)
    if told is not None:
        return told
    return next(filter(None, (way(stuck) for way in OF_EACH_OTHER)), None) or hub(stuck) or _first_or_all(stuck)


def of_the_end(stuck: StuckSet) -> Blame | None:
    """Who is responsible because the chain ends there, or because one wait alone shows it; `None` if nothing does."""
    return next((found for way in OF_THE_END if (found := way(stuck)) is not None), None)


def _gone(stuck: StuckSet) -> Blame | None:
    """The processes that ended, at the end of the chain; the waiters if each of those may have finished its work."""
    return (those_gone(stuck) or stuck.at_end) if stuck.gone else None


def _odd_in_meeting(stuck: StuckSet) -> Blame | None:
    """Ranks that came to the rendezvous with other numbers than the rest."""
    met = meeting(stuck)
    return (met.odd or None) if met else None


def _lost_holder(stuck: StuckSet) -> Blame | None:
    """The process that ended while holding a lock between processes."""
    holder = lost_holder(stuck)
    return None if holder is None else holder.pids


def _named_by_the_wait(stuck: StuckSet) -> Blame | None:
    """Those that the waits themselves blame: nobody else can help, and they have not."""
    ends = (end for end in stuck.closed.root_blockers if isinstance(end, NoReleaser))
    pids = dict.fromkeys(pid for end in ends for pid in end.blame)
    own = {key[0]: key for key in reversed(stuck.at_end)}
    job = stuck.job
    return [own.get(pid, (pid, pid)) if job.is_alive(pid) else pid for pid in pids] or None


def _nobody_of_the_job(stuck: StuckSet) -> Blame | None:
    """A stalled network link is to blame, or ranks that are not observed."""
    return () if stalls(stuck) or (stuck.outside and stuck.outside.of_job) else None


def _server_of_left_connection(stuck: StuckSet) -> Blame | None:
    """The server, whose threads all serve other connections."""
    left = left_connection(stuck)
    return (left[1],) if left else None


def _keeper_of_loop(stuck: StuckSet) -> Blame | None:
    """A member that blocks its own event loop in a call, while others wait for answers from that loop."""
    keeper = loop_keeper(stuck)
    return (keeper,) if keeper else None


def _starving_others(stuck: StuckSet) -> Blame | None:
    """Threads that hold the GIL and make no progress."""
    still = [key for key in stuck.at_end if stuck.motion(key) is Motion.NOT_SCHEDULED]
    return [key for key in still if starves_others(stuck.job, key)] or None


def _in_handler(stuck: StuckSet) -> Blame | None:
    """A thread that waits, in a signal handler, for what the code below it holds."""
    return (stuck.in_handler[0],) if stuck.in_handler else None


def _asking(stuck: StuckSet) -> Blame | None:
    """A thread that reads its standard input, which nobody will write."""
    asks = unanswered_prompt(stuck)
    return (asks,) if asks else None


def _crashed_beside(stuck: StuckSet) -> Blame | None:
    """Crashed siblings of those that wait, and crashed relatives of who polls."""
    return crashed_mates(stuck) or polled_for(stuck) or None


def _dropping(stuck: StuckSet) -> Blame | None:
    """Those whose last item for another member could not be pickled."""
    return list(dropped(stuck)) or None


def _ended_without_trace(stuck: StuckSet) -> Blame | None:
    """Nobody: the process that ended is unknown, and no other is to blame."""
    without = {Absent.RANK_ENDED, Absent.WORKER_REPLACED}
    return () if stuck.nobody and stuck.nobody.reason in without else None


def _end_of_chain(stuck: StuckSet) -> Blame | None:
    """Whoever is at the end of a chain that ends, if only in one that waits for nobody but itself."""
    alone = len(stuck.at_end) == 1 and stuck.targets(stuck.at_end[0]) == stuck.at_end
    return None if stuck.is_mutual and not alone else stuck.at_end


def _odd_ranks(stuck: StuckSet) -> Blame | None:
    """Of ranks that wait for each other in collectives: those that differ from the others; a server if all ask it."""
    found = split(stuck)
    if not found or not found.odd:
        return None
    return (hub(stuck) if found.how is Differs.DIRECTION else []) or found.odd


def _lost_producers(stuck: StuckSet) -> Blame | None:
    """Producers that have ended, of members that wait for an item."""
    return lost_producers(stuck) or None


def _waits_for_itself(stuck: StuckSet) -> Blame | None:
    """A consumer that joins a queue before finishing its own task."""
    own = own_tasks(stuck)
    return (own.key,) if own else None


def _first_or_all(stuck: StuckSet) -> tuple[ThreadKey, ...]:
    """All of a cycle, and all threads of one process; else the first."""
    one = len({pid for pid, _ in stuck.at_end}) == 1
    return stuck.at_end if one or stuck.ending is Ending.CYCLE else stuck.at_end[:1]


OF_THE_END: tuple[Callable[[StuckSet], Blame | None], ...] = (
    _gone, _odd_in_meeting, _lost_holder, _named_by_the_wait, _nobody_of_the_job, _server_of_left_connection, _keeper_of_loop,
    _starving_others, _in_handler, _asking, _crashed_beside, _dropping, _ended_without_trace, _end_of_chain,
    _odd_ranks, _lost_producers, _waits_for_itself,
)  # fmt: skip
"""Ways in which the end of a chain, or what one wait alone shows, tells who is responsible; `None` where one does not apply,
empty where it applies and no process of the job is to blame."""

OF_EACH_OTHER: tuple[Callable[[StuckSet], Sequence[ThreadKey]], ...] = (
    keepers_of_ends, not_accepting, owing_answers, exchanging, takers, owing_items, keepers_of_permits,
    whose_end_is_awaited, absent_party, joining_threads, starters, makers_of_room, holders_of_locks, unfinished_tasks,
    awaited_tasks, stuck_inside,
)  # fmt: skip
"""Of members that wait for each other: the ways in which some are responsible; `hub` is what is left if none applies. How often
their order matters is a score (`tests.scores`)."""
