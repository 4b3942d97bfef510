"""What part of the job plays who stands at the end of a chain, or who is dead there: exactly one part fits.

- Of a thread that stands by itself, where nothing but its place is known: a rank that others wait for, a worker, the program.
- Of the dead: a rank, the producers of a queue, its consumers, any other helper.
"""

from __future__ import annotations

from enum import Enum

from mpmon.diagnosis.frames import has, in_call
from mpmon.diagnosis.graph import Absent
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Ending, Knot
from mpmon.diagnosis.libraries import TURNS
from mpmon.diagnosis.links import stalls
from mpmon.diagnosis.needs.threads import gil_owner
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.responsibility import left_connection, polled_for
from mpmon.diagnosis.roles import WORKERS
from mpmon.diagnosis.waits import ENDS, Context, Wait


class Part(Enum):
    """Of a root."""

    RANK = "a rank outside of what the others are in, or one who serves such a rank"
    WORKER = "a worker inside of the code that it was asked to run"
    PROGRAM = "the program's own code"


SERVED = frozenset({Context.DATALOADER_WORKER, Context.POOL_WORKER, Context.EXECUTOR_THREAD})

TOGETHER = frozenset({Wait.COLLECTIVE, Wait.REMOTE_END})
"""What all ranks have to come to."""

_OWN_WAITS = frozenset({Wait.PIPE_WRITE, Wait.PIPE_READ, Wait.SOCKET, Wait.POLL, Wait.FILE})
"""Waits in its own code, for somebody who is no part of the job."""

_RESULTS = frozenset({Wait.FUTURE_RESULT, Wait.POOL_RESULT})
_FROM_LOOP = frozenset({*_RESULTS, Wait.CONDITION, Wait.THREAD_QUEUE})

_FOR_OUTSIDE = frozenset({Wait.SOCKET, Wait.POLL, Wait.QUEUE_GET, Wait.EVENT_LOOP, Wait.FILE})
"""Waits that somebody outside of the job may end."""

_LOCKS = frozenset({Wait.LOCK, Wait.FILE_LOCK, Wait.THREAD_LOCK})
_SIGNS = frozenset({Wait.PROCESS_EVENT, Wait.CONDITION})
"""Waits for a sign, which whoever only waits for the end of others gives when all is over."""


class Loss(Enum):
    """What the others miss of those who ended."""

    RANK = "a rank"
    ITEMS = "producers of a queue or pipe"
    ROOM = "consumers of a queue"
    WORK = "whatever else they did"


_TOLD_BY_WAIT = frozenset({Wait.STOPPED, Wait.DEBUGGER, Wait.RENDEZVOUS, Wait.STORE_KEY})
"""Waits that say themselves what is wrong."""

_LEFT_OPEN = frozenset({Absent.THREAD_ENDED, Absent.NO_OTHER_END})
"""Of why nobody can help, what does not yet tell what is wrong."""

_AMONG_RANKS = frozenset({Wait.COLLECTIVE, Wait.RENDEZVOUS, Wait.STORE_KEY})


def loss(knot: Knot) -> Loss | None:
    """Of a chain that ends in the dead; `None` of any other."""
    kind = knot.standing().kind
    if not knot.gone:
        return None
    if kind in _AMONG_RANKS:
        return Loss.RANK
    if any(knot.standing(key).kind is Wait.QUEUE_PUT for key in knot.roots):
        return Loss.ROOM
    # Where others are left and one was killed at its work, the queue is only where that shows.
    at_work = any(gone.was_killed and not gone.certain for gone in knot.gone)
    return Loss.ITEMS if kind in (Wait.QUEUE_GET, Wait.PIPE_READ) and not at_work else Loss.WORK


def waiter_for_lock(knot: Knot) -> ThreadKey | None:
    """Who waits for a lock, or for permits, that the one at the end of the chain has."""
    alone = knot.ending is Ending.NOBODY and knot.standing().kind in _OWN_WAITS
    if knot.root is None or not (knot.ending is Ending.LEAF or alone):
        return None
    members = (*reversed(knot.closed.path[:-1]), *knot.closed.members)
    return next((key for key in members if _waits_for_lock_of(knot, key, knot.root)), None)


def _waits_for_lock_of(knot: Knot, key: ThreadKey, holder: ThreadKey) -> bool:
    need = knot.graph.node(key).need
    return need is not None and need.held and holder in need.targets and gil_owner(knot.case, key) is None


def kept_until_end(knot: Knot) -> tuple[ThreadKey, ThreadKey, ThreadKey] | None:
    """Of a cycle with one lock, whose holder waits for a sign of one who waits for the end of the others: who waits for the lock,
    who holds it, who waits for the end.
    """
    if knot.ending is not Ending.CYCLE:
        return None
    waiters = [key for key in knot.roots if knot.standing(key).kind in _LOCKS]
    holders = [key for key in knot.roots if knot.standing(key).kind in _SIGNS]
    enders = [key for key in knot.roots if knot.standing(key).kind in ENDS]
    if not enders or len(waiters) != 1 or len(holders) != 1 or len(enders) + 2 != len(knot.roots):
        return None
    need = knot.graph.node(waiters[0]).need
    held = need is not None and need.held and holders[0] in need.targets
    return (waiters[0], holders[0], enders[0]) if held else None


def undrained(knot: Knot) -> tuple[ThreadKey, ThreadKey] | None:
    """The feeder thread of a queue that cannot write, and who waits for the end of its process instead of reading."""
    for feeder in knot.members_in(Wait.PIPE_WRITE):
        stack = knot.case.stacks.get(feeder)
        if stack is None or not has(stack, "multiprocessing/queues.py", ("_feed",)):
            continue
        joiner = next((key for key in knot.closed.members if _waits_for_end(knot, key, feeder[0])), None)
        if joiner and not knot.could_be_served(feeder, joiner):
            return feeder, joiner
    return None


def _waits_for_end(knot: Knot, key: ThreadKey, pid: int) -> bool:
    """Of a process; from one whose interpreter exits nothing else can be waited for."""
    ends = knot.standing(key).kind in ENDS or knot.standing((pid, pid)).kind is Wait.EXIT
    return ends and key[0] != pid and (pid, pid) in knot.targets(key)


def part(knot: Knot) -> Part | None:
    """Of a chain that ends in one who stands by itself, and of whom nothing else tells what is wrong; `None` of any other."""
    silent = knot.root is not None and knot.case.silent_mount(knot.root) is not None
    if silent or knot.standing().kind in _TOLD_BY_WAIT or waiter_for_lock(knot) or polled_for(knot):
        return None
    if knot.nobody and knot.nobody.reason not in _LEFT_OPEN:
        return None
    if keeps_own_loop(knot) or keeps_gil(knot) or left_connection(knot) or stalls(knot):
        return None
    if waiting_for_rank(knot):
        return Part.RANK
    lonely = knot.nobody is not None and knot.nobody.reason is Absent.THREAD_ENDED and knot.context() in SERVED
    lonely = lonely and knot.standing().kind not in _RESULTS
    if knot.ending not in (Ending.LEAF, Ending.OUTSIDE) and not lonely and not is_asked(knot):
        return None
    if is_outside(knot) or is_at_exit(knot) or is_other_program(knot):
        return None
    child = knot.kind() == "process" and not knot.is_goal
    for_worker = any(knot.case.role(key[0]).kind in WORKERS for key in knot.closed.path)
    if knot.context() in SERVED or for_worker or child or is_asked(knot):
        return Part.WORKER
    return Part.PROGRAM


def is_outside(knot: Knot) -> bool:
    """The root stands in a wait for somebody who is no part of the job, or for a file."""
    outside = knot.ending is Ending.OUTSIDE and knot.motion() is Motion.FROZEN
    return outside and knot.standing().kind in _FOR_OUTSIDE and not left_connection(knot) and not stalls(knot)


def is_at_exit(knot: Knot) -> bool:
    """The work is done: an interpreter on the path shuts down."""
    return any(knot.standing(key).kind is Wait.EXIT for key in knot.closed.path)


def is_other_program(knot: Knot) -> bool:
    """The root is a program of which no frames can be read, in a file: it has nothing else to show."""
    in_file = knot.ending is Ending.LEAF and knot.standing().kind is Wait.FILE
    return in_file and knot.root not in knot.case.stacks


def keeps_own_loop(knot: Knot) -> bool:
    """The root waits in a callback of its event loop for what another thread, or a later callback, would have to bring."""
    stack = knot.case.stacks.get(knot.root) if knot.root else None
    return in_call(stack, TURNS) and knot.standing().kind in _FROM_LOOP


def keeps_gil(knot: Knot) -> ThreadKey | None:
    """The root, where it owns the GIL that a thread of its process waits for."""
    root, path = knot.root, knot.closed.path
    stack = knot.case.stacks.get(root) if root else None
    if root is None or stack is None or not stack.owns_gil or knot.ending is not Ending.LEAF or len(path) < 2:
        return None
    return root if path[-2][0] == root[0] else None


def is_asked(knot: Knot) -> bool:
    """The root runs code that a library has called for another member of the set, and does not itself ask that library."""
    own = knot.graph.node(knot.root).need if knot.root else None
    if own and own.polled:
        return False
    needs = (knot.graph.node(key).need for key in knot.closed.members if key != knot.root)
    return any(need and need.polled and knot.root in need.targets for need in needs)


def waiting_for_rank(knot: Knot) -> list[ThreadKey]:
    """The other ranks that wait, in something that all have to come to, while the root is elsewhere; none where it is no such
    root.
    """
    alone = knot.ending is Ending.NOBODY and knot.standing().kind in _OWN_WAITS
    if knot.root is None or not (knot.ending in (Ending.LEAF, Ending.OUTSIDE) or alone):
        return []
    if knot.kind() != "rank" and not (knot.kind() == "process" and _serves_a_rank(knot)):
        return []
    if knot.standing().kind in TOGETHER:
        return []
    waiting = [key for key in knot.case.blocked if key[0] == key[1] and knot.standing(key).kind in TOGETHER]
    ranks = [key for key in waiting if key[0] != knot.root[0] and knot.case.role(key[0]).kind == "rank"]
    return [key for key in ranks if knot.root in knot.graph.reached(key)]


def _serves_a_rank(knot: Knot) -> bool:
    """A rank on the path, itself outside of the collective, waits for the root."""
    path = knot.closed.path
    asks = path[path.index(knot.root) - 1] if knot.root in path[1:] else None
    outside = asks is not None and knot.standing(asks).kind not in TOGETHER
    return outside and asks is not None and knot.case.role(asks[0]).kind == "rank"
