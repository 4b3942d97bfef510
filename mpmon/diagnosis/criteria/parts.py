"""The part that the end of a chain plays in the job, with only its place known: exactly one part fits.

A rank that others wait for, a worker, or the program itself; `losses` is the same for processes that ended.
"""

from __future__ import annotations

from enum import Enum

from mpmon.diagnosis.criteria.signs import has_sign
from mpmon.diagnosis.edges.gil import gil_owner, starver, starves_others
from mpmon.diagnosis.graph import Absent, Ending
from mpmon.diagnosis.libraries import TURNS
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.responsibility.tasks import traced, wait_for_request
from mpmon.diagnosis.roles import WORKERS, is_python
from mpmon.diagnosis.stacks.frames import in_call, is_user
from mpmon.diagnosis.stacks.waits import POOL_TASKS, RESULTS, Context, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import StuckSet


class Part(Enum):
    """The part of a root."""

    RANK = "a rank outside of what the others are in, or one who serves such a rank"
    WORKER = "a worker inside of the code that it was asked to run"
    PROGRAM = "the program's own code"


SERVED = frozenset({Context.DATALOADER_WORKER, Context.POOL_WORKER, Context.EXECUTOR_THREAD})

TOGETHER = frozenset({Wait.COLLECTIVE, Wait.REMOTE_END})
"""Operations that all ranks have to enter."""

_OWN_WAITS = frozenset({Wait.PIPE_WRITE, Wait.PIPE_READ, Wait.SOCKET, Wait.POLL, Wait.FILE})
"""Waits in its own code for an external party."""

_FROM_LOOP = frozenset({*RESULTS, Wait.CONDITION, Wait.THREAD_QUEUE})

_FOR_OUTSIDE = frozenset({Wait.SOCKET, Wait.POLL, Wait.QUEUE_GET, Wait.EVENT_LOOP, Wait.FILE})
"""Waits that an external party may end."""

_OF_THREADS = frozenset({Wait.CONDITION, Wait.FUTEX})
"""Waits for threads of the process, perhaps a library's own."""

_TOLD_BY_WAIT = frozenset({Wait.STOPPED, Wait.DEBUGGER, Wait.RENDEZVOUS, Wait.STORE_KEY})
"""Waits that by themselves identify the cause."""

_LEFT_OPEN = frozenset({Absent.THREAD_ENDED, Absent.NO_OTHER_END})
"""Reasons why nobody can help that do not by themselves identify the cause."""


def waiter_for_lock(stuck: StuckSet) -> ThreadKey | None:
    """A thread that waits for a lock, or for permits, held by the one at the end of the chain; if no member does, another
    thread of that one's process.
    """
    alone = stuck.ending is Ending.NOBODY and stuck.wait_state().kind in _OWN_WAITS
    if stuck.root is None or not (stuck.ending is Ending.LEAF or alone) or stuck.wait_state().kind in _TOLD_BY_WAIT:
        return None
    beside = stuck.job.threads(stuck.root[0])
    members = (*reversed(stuck.closed.path[:-1]), *stuck.closed.members, *beside)
    return next((key for key in members if _waits_for_lock_of(stuck, key, stuck.root)), None)


def _waits_for_lock_of(stuck: StuckSet, key: ThreadKey, holder: ThreadKey) -> bool:
    edge = stuck.graph.node(key).edge
    by_gil = gil_owner(stuck.job, key) or starver(stuck.job, key)
    return edge is not None and edge.holder_known and holder in edge.targets and by_gil is None


def part(stuck: StuckSet) -> Part | None:
    """The part of a leaf at the end of a chain, if no more specific cause is known; `None` for any other end."""
    silent = stuck.root is not None and stuck.job.silent_mount(stuck.root) is not None
    if (
        silent
        or stuck.wait_state().kind in _TOLD_BY_WAIT
        or at_terminal(stuck)
        or waiter_for_lock(stuck)
        or has_sign(stuck)
        or traced(stuck)
        or wait_for_request(stuck)
    ):
        return None
    if stuck.nobody and stuck.nobody.reason not in _LEFT_OPEN:
        return None
    if keeps_own_loop(stuck) or keeps_gil(stuck):
        return None
    if waiting_for_rank(stuck):
        return Part.RANK
    lonely = stuck.nobody is not None and stuck.nobody.reason is Absent.THREAD_ENDED and stuck.context() in SERVED
    lonely = lonely and stuck.wait_state().kind not in RESULTS
    if stuck.ending not in (Ending.LEAF, Ending.EXTERNAL, Ending.DESERTED) and not lonely and not is_asked(stuck):
        return None
    if is_outside(stuck) or is_at_exit(stuck) or is_other_program(stuck):
        return None
    child = stuck.kind() in ("process", "subprocess") and not stuck.is_goal
    for_worker = any(stuck.job.role(key[0]).kind in WORKERS for key in stuck.closed.path)
    told = stuck.root is not None and stuck.job.was_asked_to_end(stuck.root)
    if stuck.context() in SERVED or for_worker or child or told or is_asked(stuck):
        return Part.WORKER
    return Part.PROGRAM


def at_terminal(stuck: StuckSet) -> bool:
    """The root asks a person at a terminal, while others need it; not if it was asked to end."""
    if stuck.root is None or stuck.is_goal or stuck.ending is not Ending.LEAF or stuck.job.was_asked_to_end(stuck.root):
        return False
    items = stuck.job.waits_on(stuck.root)
    return bool(items) and all(item.kind == "terminal" for item in items) and stuck.wait_state().idle


def is_outside(stuck: StuckSet) -> bool:
    """The root waits for an external party, for a server that waits for requests itself, or for a file."""
    serving = [stuck.wait_state(key).kind is Wait.SERVICE for key in stuck.idle_targets]
    deserted = stuck.ending is Ending.DESERTED and all(serving)
    # A program that is not Python may wait by polling.
    still = {Motion.NOT_SCHEDULED, *((Motion.POLLING,) if stuck.root and stuck.root[0] in stuck.job.foreign else ())}
    outside = (stuck.ending is Ending.EXTERNAL or deserted) and stuck.motion() in still
    kind = stuck.wait_state().kind
    waits = kind in _FOR_OUTSIDE or (kind is Wait.PIPE_READ and deserted)
    # A library may wait for its own thread, which has the connection.
    by_library = stuck.ending is Ending.EXTERNAL and kind in _OF_THREADS
    return ((outside and waits) or by_library) and not has_sign(stuck)


def is_at_exit(stuck: StuckSet) -> bool:
    """The work is done: an interpreter on the path shuts down."""
    return any(stuck.wait_state(key).kind is Wait.EXIT for key in stuck.closed.path)


def after_script(stuck: StuckSet) -> ThreadKey | None:
    """The last main thread on the path that is in an exit function of its own program, where it waits for another thread: its
    outermost frame is not a `<module>` any more. In a program that embeds Python it may never have been.
    """
    found = [key for key in stuck.closed.path if key[0] == key[1] and _in_exit_function(stuck, key)]
    return found[-1] if found else None


def _in_exit_function(stuck: StuckSet, key: ThreadKey) -> bool:
    stack = stuck.job.stacks.get(key)
    outermost = stack.frames[-1] if stack and stack.frames else None
    for_thread = stuck.wait_state(key).kind in (Wait.JOIN_THREAD, Wait.THREAD_QUEUE, Wait.CONDITION)
    if not for_thread or outermost is None or not is_python(stuck.job.processes[key[0]]):
        return False
    return outermost.function != "<module>" and is_user(outermost.file)


def is_other_program(stuck: StuckSet) -> bool:
    """The root is a program without readable frames, waiting for a file: nothing more can be seen."""
    in_file = stuck.ending is Ending.LEAF and stuck.wait_state().kind is Wait.FILE
    return in_file and stuck.root not in stuck.job.stacks


_LOST = frozenset({
    Absent.ITEM_LOST, Absent.RESULT_LOST, Absent.NOT_SENT, Absent.ANSWER_TAKEN, Absent.WORKER_REPLACED, Absent.NOT_BEGUN,
    Absent.NO_WORKERS,
})  # fmt: skip
"""Reasons that concern a pool's workers, wherever the pool's caller waits."""


def keeps_own_loop(stuck: StuckSet) -> bool:
    """The root blocker waits in a callback of its event loop for a result that another thread, or a later callback, would
    provide.
    """
    if stuck.nobody and stuck.nobody.reason in _LOST:
        return False
    stack = stuck.job.stacks.get(stuck.root) if stuck.root else None
    return in_call(stack, TURNS) and stuck.wait_state().kind in _FROM_LOOP


def keeps_gil(stuck: StuckSet) -> ThreadKey | None:
    """A thread at the end of the chain that owns the GIL, for which other threads of its process wait."""
    return next((key for key in stuck.at_end if starves_others(stuck.job, key)), None)


def is_asked(stuck: StuckSet) -> bool:
    """The root alone runs code that a library called for another member of the set, and does not itself poll that library. In a
    circle what the members wait for is the cause, whoever asked for it.
    """
    if stuck.ending is Ending.CYCLE or len(stuck.at_end) > 1:
        return False
    own = stuck.graph.node(stuck.root).edge if stuck.root else None
    if own and own.polled:
        return False
    needs = (stuck.graph.node(key).edge for key in stuck.closed.members if key != stuck.root)
    return any(edge and edge.polled and not edge.holder_known and stuck.root in edge.targets for edge in needs)


def waiting_for_rank(stuck: StuckSet) -> list[ThreadKey]:
    """The other ranks that wait in an operation that all have to enter, while the root blocker is elsewhere; else none."""
    alone = stuck.ending is Ending.NOBODY and stuck.wait_state().kind in _OWN_WAITS
    if stuck.root is None or not (stuck.ending in (Ending.LEAF, Ending.EXTERNAL) or alone):
        return []
    if stuck.kind() != "rank" and not (stuck.kind() == "process" and _serves_a_rank(stuck)):
        return []
    if stuck.wait_state().kind in TOGETHER:
        return []
    waiting = [key for key in stuck.job.blocked if key[0] == key[1] and stuck.wait_state(key).kind in TOGETHER]
    ranks = [key for key in waiting if key[0] != stuck.root[0] and stuck.job.role(key[0]).is_rank]
    return [key for key in ranks if stuck.root in stuck.graph.reached(key)]


def _serves_a_rank(stuck: StuckSet) -> bool:
    """A rank on the path, itself outside the collective, waits for the root."""
    path = stuck.closed.path
    asks = path[path.index(stuck.root) - 1] if stuck.root in path[1:] else None
    outside = asks is not None and stuck.wait_state(asks).kind not in TOGETHER
    return outside and asks is not None and stuck.job.role(asks[0]).is_rank


def in_own_pool(stuck: StuckSet) -> bool:
    """The root runs a task of a pool and waits for a result; the threads that would compute it were not lost in a fork."""
    left = stuck.nobody is not None and stuck.nobody.reason is Absent.LEFT_IN_PARENT
    return stuck.root is not None and stuck.wait_state().kind in RESULTS and stuck.context() in POOL_TASKS and not left
