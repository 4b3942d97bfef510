"""Who of a stuck set must move first, by what its members wait for.

Where the chain ends, its end is responsible: a leaf, the dead, those whose part nobody does.  Where it ends nowhere, because all
members wait for one another, the kinds of their waits tell:

- one waits for *room*, another, who alone could make it, for anything else: who could make room does not, and is responsible;
- one waits in a *stream* that it was given at its start: whoever started it is;
- some wait in a *barrier*, all others for the end of these: those others do not come to it, and are responsible;
- one waits in a *task* that a library has called, another has asked that library: the task does not end, and is responsible;
- one waits for an *item*, and a producer has ended: that one is;
- all wait for *items* of each other: the one that owes one by the ledgers is, else all of them; some do, and all others wait for
  the end of these: those who ask for an item are;
- one waits for *itself*, as a consumer that joins a queue before it has done its own task: it is;
- one stands still with the *GIL*: it is;
- clients of a manager wait for what other *clients* do: all of them are;
- a *connection* has nobody at its other end, in a server whose threads serve others: the server is;
- one waits for a *lock*, its holder for anything else: the holder keeps what others need, and is responsible;
- ranks wait for each other in collectives: those that differ from the others are, see `collectives.split`;
- all wait for the same kind of thing: all of them are.
"""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.balances import owing, put_by_ended
from mpmon.diagnosis.case import Case
from mpmon.diagnosis.collectives import split
from mpmon.diagnosis.findings import Suspect
from mpmon.diagnosis.graph import Absent, Nobody, Target
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Ending, Knot, crashed
from mpmon.diagnosis.links import stalls
from mpmon.diagnosis.managers import client_calls
from mpmon.diagnosis.mates import crashed_mates
from mpmon.diagnosis.meeting import meeting
from mpmon.diagnosis.needs.connections import unserved
from mpmon.diagnosis.needs.dead import crashed_relatives, forgotten_child, replaced
from mpmon.diagnosis.needs.threads import starves_others
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import POOL_WORKERS
from mpmon.diagnosis.undone import own_tasks
from mpmon.diagnosis.waits import ENDS, Context, Wait, context, in_barrier, in_own_code

_LOCKS = frozenset({Wait.LOCK, Wait.THREAD_LOCK, Wait.FILE_LOCK})


_ANSWERS = (Wait.SOCKET, Wait.QUEUE_GET, Wait.POLL)
"""Waits for an answer over a connection."""

_WITHOUT_TRACE = frozenset({Absent.RANK_ENDED, Absent.WORKER_REPLACED})


def responsible(knot: Knot) -> tuple[Suspect, ...]:
    """The threads, or the processes where these have ended."""
    case = knot.case
    if knot.gone:
        return tuple(map(case.dead_suspect, those_gone(knot))) or tuple(map(case.suspect, knot.roots))
    if (met := meeting(knot)) and met.odd:
        return tuple(map(case.suspect, met.odd))
    if (holder := lost_holder(knot)) is not None:
        return tuple(map(case.dead_suspect, holder.pids))
    if blamed := dict.fromkeys(pid for end in knot.closed.roots if isinstance(end, Nobody) for pid in end.blame):
        own = {key[0]: key for key in reversed(knot.roots)}
        return tuple(
            case.suspect(own.get(pid, (pid, pid))) if case.is_alive(pid) else case.dead_suspect(pid) for pid in blamed
        )
    if stalls(knot):
        # Nobody of the job: the way between two of them.
        return ()
    if knot.outside and knot.outside.of_job:
        # They could tell; those who are at hand only wait for them.
        return ()
    if left := left_connection(knot):
        return (case.suspect(left[1]),)
    if starving := [key for key in knot.roots if knot.motion(key) is Motion.FROZEN and starves_others(case, key)]:
        return tuple(map(case.suspect, starving))
    if knot.in_handler:
        return (case.suspect(knot.in_handler[0]),)
    if asks := unanswered_prompt(knot):
        return (case.suspect(asks),)
    if mates := crashed_mates(knot) or polled_for(knot):
        return tuple(map(case.dead_suspect, mates))
    if knot.nobody and knot.nobody.reason in _WITHOUT_TRACE:
        # Nothing tells which process it was, and nobody else is to blame for it.
        return ()
    if knot.ending not in (Ending.CYCLE, Ending.OPEN):
        return tuple(map(case.suspect, knot.roots))
    if (found := split(knot)) and found.odd:
        return tuple(map(case.suspect, found.odd))
    if lost := _lost_producers(knot):
        return tuple(map(case.dead_suspect, lost))
    if own := own_tasks(knot):
        return (case.suspect(own.key),)
    found = (
        exchanging(knot)
        or _owing(knot)
        or _whose_end_is_awaited(knot)
        or absent_party(knot)
        or _starters(knot)
        or _makers_of_room(knot)
        or _holders_of_locks(knot)
        or unfinished_tasks(knot)
    )
    return tuple(map(case.suspect, found or (knot.roots if knot.ending is Ending.CYCLE else knot.roots[:1])))


def those_gone(knot: Knot) -> list[int]:
    """Of those that ended at the end of the chain: the crashed, or the one that can have put what came.

    Of several that ended well each may have done its part: then whoever waits for more than that is responsible.
    """
    ended = put_by_ended(knot.case, knot.root) if knot.root else None
    pids = [gone.pid for gone in knot.gone]
    pids = [pid for pid in pids if ended and pid in ended.pids] or pids
    return pids if len(pids) == 1 or any(map(crashed, knot.gone)) else []


class LostHolder(msgspec.Struct, frozen=True):
    """Who ended with a lock between processes."""

    pids: tuple[int, ...] = ()
    """Empty where nothing tells."""
    pool: bool = False
    """It was replaced by its pool, which tells its pid."""
    family: bool = False
    """The names of its siblings tell its pid."""


def lost_holder(knot: Knot) -> LostHolder | None:
    """Of a lock between processes that nobody alive has; `None` of any other chain."""
    nobody, root, case = knot.nobody, knot.root, knot.case
    if nobody is None or nobody.reason is not Absent.HOLDER_ENDED or root is None:
        return None
    if not any(item.kind == "semaphore" for item in case.waits_on(root)):
        return None
    if told := tuple(pid for pid in nobody.blame if pid not in {key[0] for key in knot.roots}):
        return LostHolder(told)
    siblings = case.clients.get(case.role(root[0]).parent or 0, ())
    pool = [pid for pid in siblings if case.role(pid).kind in POOL_WORKERS]
    if found := replaced(case, pool):
        return LostHolder(found.dead, pool=True)
    before = None if pool else forgotten_child(case, root[0])
    return LostHolder((before,), family=True) if before else LostHolder()


def unanswered_prompt(knot: Knot) -> ThreadKey | None:
    """Who reads its standard input, a pipe whose only writers are stuck themselves; but for one that answers requests: its writer
    waits for what it writes to its standard output.
    """
    if knot.ending not in (Ending.CYCLE, Ending.OPEN):
        return None
    asks = next((key for key in knot.closed.members if _reads_input(knot, key)), None)
    targets = knot.targets(asks) if asks else ()
    stuck = targets and all(target in knot.closed.members for target in targets)
    return asks if asks and stuck and not any(_reads_output(knot, target, asks) for target in targets) else None


def _reads_output(knot: Knot, key: Target, of: ThreadKey) -> bool:
    if not isinstance(key, tuple):
        return False
    reads = (item.id for item in knot.case.waits_on(key))
    return any(row.pid == of[0] and row.fd == 1 for name in reads for row in knot.case.holders.get(name, ()))


def _reads_input(knot: Knot, key: ThreadKey) -> bool:
    row = knot.case.blocked.get(key)
    return row is not None and row.syscall == "read" and row.args[:1] == (0,) and in_own_code(knot.case.stacks.get(key))


def left_connection(knot: Knot) -> tuple[ThreadKey, ThreadKey, list[ThreadKey]] | None:
    """Each connection of a server has its thread, but one, over which a client waits for an answer: the client, the thread that
    accepts, those that serve the others.
    """
    if knot.ending not in (Ending.OUTSIDE, Ending.OPEN):
        return None
    found = ((key, unserved(knot.case, key)) for key in knot.members_in(*_ANSWERS))
    return next(((key, *row) for key, row in found if row), None)


def polled_for(knot: Knot) -> list[int]:
    """Relatives that crashed, of one who looks again and again for something that they may have had to bring."""
    polls = knot.ending is Ending.LEAF and knot.root and knot.standing().kind is Wait.SLEEP
    return crashed_relatives(knot.case, knot.root[0]) if polls and knot.root and knot.motion() is Motion.NAPPING else []


def waits_for_room(case: Case, key: ThreadKey) -> bool:
    """In a pipe, a queue or a socket."""
    kind, blocked = case.standing(key).kind, case.blocked.get(key)
    sends = kind in (Wait.SOCKET, Wait.POLL) and blocked is not None and blocked.writes
    return sends or kind in (Wait.PIPE_WRITE, Wait.QUEUE_PUT)


def _makers_of_room(knot: Knot) -> list[ThreadKey]:
    """Those who alone could make the room that members wait for, and wait for something else meanwhile."""
    members = [key for key in knot.closed.core if waits_for_room(knot.case, key)]
    # The writer's own process has the other end as well, and would not read what it has written.
    pairs = [(key, target) for key in members for target in _helpers(knot, key) if target[0] != key[0]]
    pairs = [(key, target) for key, target in pairs if not _waits_to_write(knot, target)]
    # Of several who could, whoever waits for the writer: the others may have the other end by chance.
    waiting = [target for key, target in pairs if any(helper[0] == key[0] for helper in _helpers(knot, target))]
    if not pairs and len(members) == len(knot.closed.core):
        return members
    return list(dict.fromkeys(waiting or [target for _, target in pairs]))


def _waits_to_write(knot: Knot, key: ThreadKey) -> bool:
    """For room, or for the lock of those who write."""
    return waits_for_room(knot.case, key) or knot.standing(key).kind in _LOCKS


def _starters(knot: Knot) -> list[ThreadKey]:
    """In a cycle, those who started the members that wait in a stream they were given: they decide what is read and closed."""
    started = [key for key in knot.roots if in_given_stream(knot.case, key)]
    parents = {knot.case.processes[key[0]].ppid for key in started}
    found = [key for key in knot.roots if key[0] in parents]
    return found if knot.ending is Ending.CYCLE and parents == {pid for pid, _ in found} else []


def in_given_stream(case: Case, key: ThreadKey) -> bool:
    """It reads its standard input, or writes to its standard output or error."""
    row = case.blocked.get(key)
    return row is not None and row.syscall in ("read", "write") and row.args[:1] in ((0,), (1,), (2,))


def _lost_producers(knot: Knot) -> list[int]:
    """Of those who wait for an item: relatives that crashed, or the one that had put all there was and has ended."""
    # What those miss who only wait for a cycle is not what the cycle is about.
    among = knot.roots if knot.ending is Ending.CYCLE else knot.closed.core
    readers = [key for key in among if knot.standing(key).kind is Wait.QUEUE_GET]
    if len(readers) == len(knot.closed.core):
        # They wait for items of each other: that another one has ended need not matter.
        return []
    for key in readers:
        ended = put_by_ended(knot.case, key)
        if found := crashed_relatives(knot.case, key[0]) or list(ended.one if ended else ()):
            return found
    return []


def _owing(knot: Knot) -> list[ThreadKey]:
    """Of those who all wait for items of each other: the one that owes one by the ledgers, else all."""
    readers = knot.members_in(Wait.QUEUE_GET)
    if len(readers) < max(2, len(knot.closed.members)):
        return []
    owes = owing(knot.case, [pid for pid, _ in readers])
    return [key for key in readers if not owes or key[0] == owes.pid]


def _whose_end_is_awaited(knot: Knot) -> list[ThreadKey]:
    """Those who wait for items, where all who could put one wait for their end."""
    readers, enders = knot.members_in(Wait.QUEUE_GET), knot.members_in(*ENDS)
    served = knot.members_in(Wait.OTHER_CLIENTS)
    whole = len(readers) + len(enders) + len(served) == len(knot.closed.members)
    return readers if whole and readers and enders else []


def exchanging(knot: Knot) -> list[ThreadKey]:
    """Clients of a manager whose objects each wait for what another client does, where it is not the same that all of them do."""
    calls = client_calls(knot)
    alike = set(calls.values()) <= {"put"} or set(calls.values()) <= {"get"}
    return [] if alike or len({pid for pid, _ in calls}) < 2 else list(calls)


def _holders_of_locks(knot: Knot) -> list[ThreadKey]:
    """Those who have a lock that members wait for, and wait for something else than a lock."""
    waiting = [key for key in knot.closed.core if knot.standing(key).kind in _LOCKS]
    holders = [target for key in waiting for target in _helpers(knot, key)]
    return [key for key in dict.fromkeys(holders) if knot.standing(key).kind not in _LOCKS]


def unfinished_tasks(knot: Knot) -> list[ThreadKey]:
    """Of those who wait for each other, those of the user's code that a library has called, where the others have called one;
    unless it is for a lock or for room that the tasks wait.
    """
    among = knot.roots if knot.ending is Ending.CYCLE else knot.closed.core
    tasks = [key for key in among if knot.case.shape(key).runs or _is_servant(knot, key)]
    clients = [key for key in among if key not in tasks and is_client(knot, key)]
    in_circle = knot.ending in (Ending.CYCLE, Ending.OPEN) and len(tasks) + len(clients) == len(among)
    if not in_circle or not tasks or not clients:
        return []
    needs = {key: need for key in tasks if (need := knot.graph.node(key).need)}
    told = any(need.held or waits_for_room(knot.case, key) for key, need in needs.items())
    return [] if told or "put" in client_calls(knot).values() else tasks


def absent_party(knot: Knot) -> list[ThreadKey]:
    """Those who wait for the end of processes that wait for them in a barrier."""
    inside = [key for key in knot.closed.core if in_barrier(knot.case.stacks.get(key))]
    outside = [key for key in knot.closed.core if key not in inside]
    stuck = knot.ending in (Ending.CYCLE, Ending.OPEN) and len({key[0] for key in knot.closed.core}) > 1
    return outside if stuck and inside and all(knot.standing(key).kind in ENDS for key in outside) else []


_REQUESTS = frozenset({Wait.LOADER_BATCH, Wait.POOL_RESULT, Wait.FUTURE_RESULT})


def is_client(knot: Knot, key: ThreadKey) -> bool:
    """It has called a library, and waits for what that brings."""
    return bool(knot.case.shape(key).asks) or knot.standing(key).kind in _REQUESTS


def _is_servant(knot: Knot, key: ThreadKey) -> bool:
    """It runs the user's code for another process."""
    found = context(knot.case.stacks.get(key))
    return found is not None and found[0] in (Context.DATALOADER_WORKER, Context.POOL_WORKER)


def _helpers(knot: Knot, key: ThreadKey) -> list[ThreadKey]:
    """Members that a member waits for."""
    return [target for target in knot.targets(key) if isinstance(target, tuple) and target in knot.closed.core]
