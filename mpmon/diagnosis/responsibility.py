"""Which members of a stuck set are responsible, by the kinds of their waits.

If the chain ends, its end is responsible: a leaf, an exited process, or the process whose part nobody does. If it does not
end, because all members wait for one another, the kinds of their waits decide:

- a member waits for *room*, and the only member that could make room waits for something else: that other member is
  responsible;
- a member waits in a *stream* that it was given at its start: the process that started it is responsible;
- some members wait in a *barrier*, and all others wait for them to end, or wait elsewhere in the same function: the others
  that run that function, else all others, never enter the barrier and are responsible;
- a member waits in a *task* that a library called, and another member has called that library: the task does not end, and
  is responsible;
- several members are *threads of one process* that only its threads could help, and all others wait for that process: these
  threads;
- some members are *tasks* of an executor, and all others wait for their results: the tasks are responsible;
- a member waits for an *item*, and a producer has ended: the producer is responsible;
- all members wait for each other's *items*: the one that by the ledgers owes an item, else all of them; if some wait for
  items and all others wait for those to end: the ones that wait for items;
- all members wait for *permits* that they pass round: the ones that took more permits than they returned;
- a member waits for *itself*, such as a consumer that joins a queue before finishing its own task: that member;
- a member holds the *GIL* and makes no progress: that member;
- clients of a manager wait for other *clients* to act: all of them; but if all of them *put*, the processes that join them
  instead of taking items out;
- a member blocks its own *event loop* in a call, and others wait for answers from that loop: that member;
- a *connection* has no thread at its other end, in a server whose threads serve other connections: the server;
- *clients* of a library wait for its service processes, which run only the library's code and wait for a request: the clients;
- a *service* thread with code of the job waits for the next request, or for the rest of one, of a client that still waits for
  its answer: that thread;
- one member is needed by each of the others, and needs none of them in particular: that one;
- a member waits for a *lock*, and the lock holder waits for something other than a lock or room: the holder;
- ranks wait for each other in collectives: the ranks that differ from the others, see `collectives.split`;
- all members wait for the same kind of thing: all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from mpmon.diagnosis.collectives import Differs, split
from mpmon.diagnosis.crashed_siblings import crashed_mates
from mpmon.diagnosis.edges.connections import unserved
from mpmon.diagnosis.edges.dead import crashed_relatives, forgotten_child, replaced
from mpmon.diagnosis.edges.messages import asked
from mpmon.diagnosis.edges.threads import starves_others
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.findings import Suspect
from mpmon.diagnosis.frames import has, in_call, is_user
from mpmon.diagnosis.graph import Absent, NoReleaser, Target
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.job_state import JobState
from mpmon.diagnosis.joinable_queue import own_tasks
from mpmon.diagnosis.libraries import TURNS
from mpmon.diagnosis.links import stalls
from mpmon.diagnosis.loops import BODY, ROOM, may_hear
from mpmon.diagnosis.loops import ENDS as ENDS_OF_TASKS
from mpmon.diagnosis.manager_calls import client_calls, those_who_only_wait
from mpmon.diagnosis.meeting import meeting
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.queue_ledgers import owing, put_by_ended
from mpmon.diagnosis.roles import POOL_WORKERS, WORKERS
from mpmon.diagnosis.stuck_set import Ending, StuckSet, crashed
from mpmon.diagnosis.suspects import stands_at, suspect
from mpmon.diagnosis.waits import ENDS, LOCKS, Context, Wait, context, in_barrier, in_own_code

_ANSWERS = (Wait.SOCKET, Wait.QUEUE_GET, Wait.POLL)
"""Waits for an answer over a connection."""

_WITHOUT_TRACE = frozenset({Absent.RANK_ENDED, Absent.WORKER_REPLACED})


def responsible(stuck: StuckSet) -> tuple[Suspect, ...]:
    """The responsible threads, or processes if they have ended; empty if no process of the job is to blame."""
    return tuple(suspect(stuck.job, who) for who in _blamed(stuck))


def _blamed(stuck: StuckSet) -> Sequence[ThreadKey | int]:
    """The same: threads, and pids of processes that have ended."""
    job = stuck.job
    if stuck.gone:
        return those_gone(stuck) or stuck.root_blockers
    if (met := meeting(stuck)) and met.odd:
        return met.odd
    if (holder := lost_holder(stuck)) is not None:
        return holder.pids
    if blamed := dict.fromkeys(
        pid for end in stuck.closed.root_blockers if isinstance(end, NoReleaser) for pid in end.blame
    ):
        own = {key[0]: key for key in reversed(stuck.root_blockers)}
        return [own.get(pid, (pid, pid)) if job.is_alive(pid) else pid for pid in blamed]
    if stalls(stuck):
        # The network link is to blame, not a process.
        return ()
    if stuck.outside and stuck.outside.of_job:
        # Unobserved ranks could reveal the cause; the observed ranks only wait for them.
        return ()
    if left := left_connection(stuck):
        return (left[1],)
    if keeper := loop_keeper(stuck):
        return (keeper,)
    if starving := [
        key for key in stuck.root_blockers if stuck.motion(key) is Motion.NOT_SCHEDULED and starves_others(job, key)
    ]:
        return starving
    if stuck.in_handler:
        return (stuck.in_handler[0],)
    if asks := unanswered_prompt(stuck):
        return (asks,)
    if mates := crashed_mates(stuck) or polled_for(stuck):
        return mates
    if stuck.nobody and stuck.nobody.reason in _WITHOUT_TRACE:
        # The process that ended is unknown, and no other is to blame.
        return ()
    if idle := _idle_threads(stuck):
        return idle
    if stuck.ending not in (Ending.CYCLE, Ending.OPEN):
        return stuck.root_blockers
    if (found := split(stuck)) and found.odd:
        asked = hub(stuck) if found.how is Differs.DIRECTION else []
        return asked or found.odd
    if lost := _lost_producers(stuck):
        return lost
    if own := own_tasks(stuck):
        return (own.key,)
    found = next(filter(None, (who(stuck) for who in OF_EACH_OTHER)), None)
    return found or _first_or_all(stuck)


def _first_or_all(stuck: StuckSet) -> tuple[ThreadKey, ...]:
    """All of a cycle, and all threads of one process; else the first."""
    one = len({pid for pid, _ in stuck.root_blockers}) == 1
    return stuck.root_blockers if one or stuck.ending is Ending.CYCLE else stuck.root_blockers[:1]


def those_gone(stuck: StuckSet) -> list[int]:
    """The exited processes at the end of the chain: the crashed ones, or the ones that can have put the items received.

    If several exited without error, each may have finished its work: then none is returned, and the waiter is responsible.
    """
    ended = put_by_ended(stuck.job, stuck.root) if stuck.root else None
    pids = [gone.pid for gone in stuck.gone]
    pids = [pid for pid in pids if ended and pid in ended.pids] or pids
    return pids if len(pids) == 1 or any(map(crashed, stuck.gone)) else []


class LostHolder(msgspec.Struct, frozen=True):
    """The process that ended while holding a lock between processes."""

    pids: tuple[int, ...] = ()
    """Empty if unknown."""
    pool: bool = False
    """Its pool has replaced it, which reveals its pid."""
    family: bool = False
    """The numbers in its siblings' names reveal its pid."""
    killed: bool = False
    """It is a relative that was killed, of which it is not known what it held."""


def lost_holder(stuck: StuckSet) -> LostHolder | None:
    """The last holder of a lock between processes that no living process holds; `None` for any other chain."""
    nobody, root, job = stuck.nobody, stuck.root, stuck.job
    if nobody is None or nobody.reason is not Absent.HOLDER_ENDED or root is None:
        return None
    if job.block_wanted(root):
        return LostHolder(nobody.blame, killed=True)
    of_manager = job.wait_state(root).kind is Wait.OTHER_CLIENTS
    if not of_manager and not any(item.kind == "semaphore" for item in job.waits_on(root)):
        return None
    own = job.read_wait(root).kind is Wait.JOIN_PROCESS
    told = tuple(pid for pid in nobody.blame if pid not in {key[0] for key in stuck.root_blockers})
    if told and not own:
        seen = {*job.processes, *job.remembered, *(row.pid for row in job.snapshot.exits)}
        return LostHolder(told, family=seen.isdisjoint(told))
    siblings = job.clients.get(root[0] if own else job.role(root[0]).parent or 0, ())
    pool = [pid for pid in siblings if job.role(pid).kind in POOL_WORKERS]
    if found := replaced(job, pool):
        return LostHolder(found.dead, pool=True)
    before = None if pool or own else forgotten_child(job, root[0])
    return LostHolder((before,), family=True) if before else LostHolder()


def unanswered_prompt(stuck: StuckSet) -> ThreadKey | None:
    """A thread that reads its standard input, a pipe whose only writers are stuck themselves. A thread that answers
    requests is excluded: its writer reads its standard output; so is a program at the end of a pipeline, which gets its input
    from programs that are no ancestors of it, and one that cannot write.
    """
    if stuck.ending not in (Ending.CYCLE, Ending.OPEN):
        return None
    full = {key[0] for key in stuck.closed.members if waits_for_room(stuck.job, key)}
    reads = [key for key in stuck.closed.members if key[0] not in full and _reads_input(stuck, key)]
    asks = next(
        (key for key in reads if key in stuck.job.stacks or _are_ancestors(stuck, stuck.targets(key), key[0])), None
    )
    targets = stuck.targets(asks) if asks else ()
    all_stuck = targets and all(target in stuck.closed.members for target in targets)
    return asks if asks and all_stuck and not any(_reads_output(stuck, target, asks) for target in targets) else None


def _are_ancestors(stuck: StuckSet, targets: Sequence[Target], pid: int) -> bool:
    above, processes = {pid}, stuck.job.processes
    while (parent := processes[pid].ppid) in processes and parent not in above:
        above.add(parent)
        pid = parent
    return all(isinstance(target, tuple) and target[0] in above for target in targets)


def _reads_output(stuck: StuckSet, key: Target, of: ThreadKey) -> bool:
    if not isinstance(key, tuple):
        return False
    reads = (item.id for item in stuck.job.waits_on(key))
    return any(row.pid == of[0] and row.fd == 1 for name in reads for row in stuck.job.holders.get(name, ()))


def _reads_input(stuck: StuckSet, key: ThreadKey) -> bool:
    row, stack, parent = stuck.job.blocked.get(key), stuck.job.stacks.get(key), stuck.job.processes[key[0]].ppid
    # Of a program that Python code started, the line to look at is there.
    own = in_own_code(stack) if stack else stuck.job.is_foreign(key[0]) and not stuck.job.has_frames(parent)
    return own and row is not None and row.syscall == "read" and row.args[:1] == (0,)


def left_connection(stuck: StuckSet) -> tuple[ThreadKey, ThreadKey, list[ThreadKey]] | None:
    """A client that waits for an answer over a connection that no thread of the server serves: the client, the accepting
    thread, and the threads that serve other connections.
    """
    if stuck.ending not in (Ending.EXTERNAL, Ending.OPEN, Ending.CYCLE):
        return None
    found = ((key, unserved(stuck.job, key)) for key in stuck.members_in(*_ANSWERS))
    return next(((key, *row) for key, row in found if row), None)


def traced(stuck: StuckSet) -> ThreadKey | None:
    """A stopped thread that the root blocker, in another process, traces by ptrace(2)."""
    held = stuck.members_in(Wait.STOPPED)
    return next(
        (key for key in held if stuck.root and stuck.root[0] != key[0] and stuck.root in stuck.targets(key)), None
    )


def loop_keeper(stuck: StuckSet) -> ThreadKey | None:
    """A thread that, in a callback of its event loop, waits for the end of threads or processes that wait for an answer
    from that loop.
    """
    if stuck.ending not in (Ending.CYCLE, Ending.OPEN):
        return None
    asking = set(stuck.members_in(*_ANSWERS))
    for key in stuck.members_in(*ENDS):
        targets = stuck.targets(key)
        answers = all(isinstance(row, tuple) and row in asking and key in stuck.targets(row) for row in targets)
        if targets and answers and in_call(stuck.job.stacks.get(key), TURNS):
            return key
    return None


def polled_for(stuck: StuckSet) -> list[int]:
    """Crashed relatives of a polling thread that may have had to provide what it polls for."""
    polls = stuck.ending is Ending.LEAF and stuck.root and stuck.wait_state().kind is Wait.SLEEP
    return (
        crashed_relatives(stuck.job, stuck.root[0]) if polls and stuck.root and stuck.motion() is Motion.POLLING else []
    )


def waits_for_room(job: JobState, key: ThreadKey) -> bool:
    """The thread waits for room in a pipe, a queue or a socket, or the tasks of its event loop do."""
    kind, blocked = job.wait_state(key).kind, job.blocked.get(key)
    if kind is Wait.EVENT_LOOP:
        loops = job.of(EventLoops)
        waits = {row.waits for row in (*loops.held_up(key), *loops.stuck(key))}
        return ROOM in waits and waits <= {ROOM, *ENDS_OF_TASKS}
    sends = kind in (Wait.SOCKET, Wait.POLL) and blocked is not None and blocked.writes
    return sends or kind in (Wait.PIPE_WRITE, Wait.QUEUE_PUT)


def _makers_of_room(stuck: StuckSet) -> list[ThreadKey]:
    """The only threads that could make the room that members wait for, if those threads wait for something else."""
    members = [key for key in stuck.closed.core if waits_for_room(stuck.job, key)]
    # The writer's own process has the reading end too, but would not read what it wrote itself.
    pairs = [(key, target) for key in members for target in _helpers(stuck, key) if target[0] != key[0]]
    pairs = [(key, target) for key, target in pairs if not _waits_to_write(stuck, target)]
    # Of several candidates, prefer one that waits for the writer, of these one that waits for nobody else: the others may have
    # inherited the other end.
    waiting = [target for key, target in pairs if any(helper[0] == key[0] for helper in _helpers(stuck, target))]
    waiting = [target for target in waiting if len(_pids_asked(stuck, target)) == 1] or waiting
    if not pairs and len(members) == len(stuck.closed.core):
        return hub(stuck) or members
    return list(dict.fromkeys(waiting or [target for _, target in pairs]))


def _waits_to_write(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread waits for room, or for a lock such as the writers' lock."""
    return waits_for_room(stuck.job, key) or stuck.wait_state(key).kind in LOCKS


def _starters(stuck: StuckSet) -> list[ThreadKey]:
    """In a cycle, the parents of members that wait in a standard stream: a parent decides what is read and closed."""
    started = [key for key in stuck.root_blockers if in_given_stream(stuck.job, key)]
    parents = {stuck.job.processes[key[0]].ppid for key in started}
    found = [key for key in stuck.root_blockers if key[0] in parents]
    return found if stuck.ending is Ending.CYCLE and parents == {pid for pid, _ in found} else []


def in_given_stream(job: JobState, key: ThreadKey) -> bool:
    """The thread reads its standard input, or writes to its standard output or error."""
    row = job.blocked.get(key)
    return row is not None and row.syscall in ("read", "write") and row.args[:1] in ((0,), (1,), (2,))


def _lost_producers(stuck: StuckSet) -> list[int]:
    """For members that wait for an item: crashed relatives, or the ended process that had put all items so far."""
    # Consider the cycle itself only: a thread that merely waits for the cycle may lack something else.
    among = stuck.root_blockers if stuck.ending is Ending.CYCLE else stuck.closed.core
    readers = [key for key in among if stuck.wait_state(key).kind is Wait.QUEUE_GET]
    if len(readers) == len(stuck.closed.core):
        # All wait for each other's items: the end of another process need not matter.
        return []
    for key in readers:
        ended = put_by_ended(stuck.job, key)
        if found := crashed_relatives(stuck.job, key[0]) or list(ended.one if ended else ()):
            return found
    return []


def _owing(stuck: StuckSet) -> list[ThreadKey]:
    """Of members that all wait for each other's items: the one that by the ledgers owes an item, else the server that all the
    others ask, else all.
    """
    readers = stuck.members_in(Wait.QUEUE_GET)
    if len(readers) < max(2, len(stuck.closed.members)):
        return []
    if owes := owing(stuck.job, [pid for pid, _ in readers]):
        return [key for key in readers if key[0] == owes.pid]
    return asked_by_all(stuck) or readers


def kept_permits(stuck: StuckSet) -> dict[ThreadKey, int]:
    """Of members that pass round permits of several semaphores, such as the free and the filled slots of a ring buffer: the
    ones that took more permits than they returned, with the surplus; empty unless the others returned all they took.
    """
    job = stuck.job
    waited = {key: [item.id for item in job.waits_on(key) if item.kind == "semaphore"] for key in stuck.root_blockers}
    names = {name for found in waited.values() for name in found}
    if stuck.ending is not Ending.CYCLE or len(names) < 2 or not all(waited.values()):
        return {}
    kept = {
        key: sum(use.count for name in names for use in job.uses.get(name, ()) if use.pid == key[0]) for key in waited
    }
    keeping = {key: count for key, count in kept.items() if count > 0}
    return keeping if min(kept.values()) >= 0 and len(keeping) < len(kept) else {}


def _whose_end_is_awaited(stuck: StuckSet) -> list[ThreadKey]:
    """The members that wait for items, if every possible producer waits for them to end; of a server and its clients, the
    server; the producer itself, if its script has ended.
    """
    if over := ended_scripts(stuck):
        return over
    readers, enders = stuck.members_in(Wait.QUEUE_GET), stuck.members_in(*ENDS)
    served = stuck.members_in(Wait.OTHER_CLIENTS)
    whole = len(readers) + len(enders) + len(served) == len(stuck.closed.members)
    if not whole or not readers or not enders:
        return []
    places = {stands_at(stuck.job, key) for key in readers if any(key in stuck.targets(end) for end in enders)}
    # Who is not awaited, and waits elsewhere, gets what these would send.
    return asked_by_all(stuck) or [key for key in readers if stands_at(stuck.job, key) in places] or readers


def ended_scripts(stuck: StuckSet) -> list[ThreadKey]:
    """In a cycle: processes whose script has ended, and which wait for others to end; not for threads of their own, which send
    what the script has put.
    """
    over = [key for key in stuck.root_blockers if stuck.wait_state(key).kind is Wait.EXIT]
    return over if stuck.ending is Ending.CYCLE and all(key[0] not in _pids_asked(stuck, key) for key in over) else []


def asked_by_all(stuck: StuckSet) -> list[ThreadKey]:
    """The server that waits for a request from any of several clients, all of which wait for its answer; else nobody."""
    readers, served = stuck.members_in(Wait.QUEUE_GET), hub(stuck)
    clients = [key for key in readers if key not in served]
    return served if len(clients) > 1 and set(served) < set(readers) else []


def exchanging(stuck: StuckSet) -> list[ThreadKey]:
    """Clients of a manager's objects that each wait for another client's action, unless all put or all get."""
    calls = client_calls(stuck)
    alike = set(calls.values()) <= {"put"} or set(calls.values()) <= {"get"}
    return [] if alike or len({pid for pid, _ in calls}) < 2 else list(calls)


def _takers(stuck: StuckSet) -> list[ThreadKey]:
    """If all clients of a manager's queue wait for room in it: the members that join them instead of taking items out."""
    return list(those_who_only_wait(stuck)) if set(client_calls(stuck).values()) == {"put"} else []


def _holders_of_locks(stuck: StuckSet) -> list[ThreadKey]:
    """The holders of locks that members wait for, if the holders wait for something other than a lock, or room that another
    one could make.
    """
    waiting = [key for key in stuck.closed.core if stuck.wait_state(key).kind in LOCKS]
    holders = dict.fromkeys(target for key in waiting for target in _helpers(stuck, key))
    return [key for key in holders if stuck.wait_state(key).kind not in LOCKS and not waits_for_room(stuck.job, key)]


def unfinished_tasks(stuck: StuckSet) -> list[ThreadKey]:
    """Of members that wait for each other: the tasks (user code that a library called), if the others are clients that
    called a library; empty if a task waits for a held lock or for room.
    """
    among = stuck.root_blockers if stuck.ending is Ending.CYCLE else stuck.closed.core
    tasks = [key for key in among if stuck.job.shape(key).runs or _is_servant(stuck, key)]
    clients = [key for key in among if key not in tasks and is_client(stuck, key)]
    in_circle = stuck.ending in (Ending.CYCLE, Ending.OPEN) and len(tasks) + len(clients) == len(among)
    if not in_circle or not tasks or not clients:
        return []
    needs = {key: edge for key in tasks if (edge := stuck.graph.node(key).edge)}
    told = any(edge.holder_known or waits_for_room(stuck.job, key) for key, edge in needs.items())
    return [] if told or "put" in client_calls(stuck).values() else tasks


def hub(stuck: StuckSet) -> list[ThreadKey]:
    """The member that each of the others needs, and that needs none of them in particular: a server for several clients, or
    one whose clients need not be in the job.
    """
    among = stuck.root_blockers if stuck.ending is Ending.CYCLE else stuck.closed.core
    members = list(among)
    may_act = [key for key in members if key in stuck.job.stacks and not stuck.wait_state(key).idle]
    may_act = [key for key in may_act if _in_users_code(stuck, key)] or may_act
    rivals = _rivals(stuck)
    needs = {key: _needed(stuck, key, rivals.get(key, set())).intersection(members) for key in members}
    needed = frozenset[Target]().union(*needs.values())
    for found in [key for key in may_act if key in needed and not needs[key]]:
        depend = {found}
        while more := {key for key in members if key not in depend and needs[key] & depend}:
            depend |= more
        if len(depend) == len(members):
            return [found]
    return []


def _in_users_code(stuck: StuckSet, key: ThreadKey) -> bool:
    stack = stuck.job.stacks.get(key)
    return stack is not None and any(is_user(frame.file) for frame in stack.frames)


def _needed(stuck: StuckSet, key: ThreadKey, rivals: set[ThreadKey]) -> frozenset[Target]:
    """Those without whom a member cannot go on: of all that have the other end, the one that is seen to be meant. An event
    loop whose tasks await no connection serves whoever comes.
    """
    edge, tasks = stuck.graph.node(key).edge, stuck.job.of(EventLoops).known(key)
    if edge is None or (tasks and stuck.wait_state(key).kind is Wait.EVENT_LOOP and not any(map(may_hear, tasks))):
        return frozenset()
    meant = asked(stuck.job, key, (target for target in edge.targets if isinstance(target, tuple)))
    givers = (target for target in edge.targets if target not in rivals)
    needed = meant if len(meant) == 1 else list(givers if edge.every else islice(givers, 2))
    return frozenset(needed) if edge.every or len(needed) == 1 else frozenset()


def _rivals(stuck: StuckSet) -> dict[ThreadKey, set[ThreadKey]]:
    """The members that wait for the very same thing as a member, which they can thus not give; only where there are any."""
    alike: dict[tuple[object, ...], set[ThreadKey]] = defaultdict(set)
    for key in stuck.closed.members:
        if names := tuple(item.id for item in stuck.job.waits_on(key)):
            alike[(stuck.wait_state(key).kind, *names)].add(key)
    return {key: keys for keys in alike.values() if len(keys) > 1 for key in keys}


def _clients_at_fault(stuck: StuckSet) -> list[ThreadKey]:
    """Code of the job that called a library and waits for an answer of its service processes, if these run the library's code
    alone and wait for the next request: they have none.
    """
    among = stuck.root_blockers if stuck.ending is Ending.CYCLE else stuck.closed.core
    serving = {key: stuck.job.shape(key).serves for key in among}
    packages = frozenset().union(*serving.values())
    clients = [key for key in among if not serving[key] and packages & stuck.job.shape(key).asks]
    return clients if packages and len(clients) + sum(map(bool, serving.values())) == len(among) else []


def _owing_answers(stuck: StuckSet) -> list[ThreadKey]:
    """Service threads with code of the job that wait for the next request, or tasks of a server that wait for the rest of a
    request, of members that still wait for an answer.
    """
    threads = [key for key in stuck.closed.core if stuck.job.is_read_from(key) and _in_users_code(stuck, key)]
    loops = stuck.job.of(EventLoops)
    return threads or [key for key in stuck.closed.core if any(row.waits == BODY for row in loops.held_up(key))]


def _not_accepting(stuck: StuckSet) -> list[ThreadKey]:
    """Servers in whose queue the connection of another member lies: whatever they wait for, they do not accept it."""
    waits = [key for key in stuck.closed.core if any(item.listener for item in stuck.job.waits_on(key))]
    servers = {target for key in waits for target in stuck.targets(key)}
    return [key for key in stuck.closed.core if key in servers and key not in waits and _in_users_code(stuck, key)]


def _awaited_tasks(stuck: StuckSet) -> list[ThreadKey]:
    """Of threads that wait for each other: the tasks of an executor, if the others only wait for results."""
    found = {key: context(stuck.job.stacks.get(key)) for key in stuck.closed.core}
    tasks = [key for key, row in found.items() if row and row[0] is Context.EXECUTOR_THREAD]
    others = [key for key in found if key not in tasks]
    return tasks if others and all(stuck.wait_state(key).kind in _REQUESTS for key in others) else []


def _stuck_inside(stuck: StuckSet) -> list[ThreadKey]:
    """Several threads of one process that only threads of it could help, if all others wait for that process, such as the
    clients of a server whose handlers wait for one more request.
    """
    if stuck.ending is not Ending.OPEN:
        return []
    inside = [key for key in stuck.closed.core if (pids := _pids_asked(stuck, key)) and pids == {key[0]}]
    homes = {pid for pid, _ in inside}
    others = [key for key in stuck.closed.core if key not in inside]
    if len(inside) < 2 or len(homes) != 1 or not others:
        return []
    return inside if all(key[0] in homes or _pids_asked(stuck, key) == homes for key in others) else []


def _pids_asked(stuck: StuckSet, key: ThreadKey) -> set[int | None]:
    """The processes of the targets of a member's wait; `None` stands for anything else."""
    return {target[0] if isinstance(target, tuple) else None for target in stuck.targets(key)}


def _idle_threads(stuck: StuckSet) -> list[ThreadKey]:
    """The threads that a process waits for at its end, if they wait for work that nobody gives them any more."""
    if stuck.root is None or stuck.wait_state().kind is not Wait.EXIT:
        return []
    threads = [
        target for target in stuck.targets(stuck.root) if isinstance(target, tuple) and target[0] == stuck.root[0]
    ]
    return [key for key in threads if stuck.wait_state(key).idle]


def _joining_threads(stuck: StuckSet) -> list[ThreadKey]:
    """The thread that waits for the ends of others of its process, all of which wait for one more party of a barrier, or for
    room in a queue between threads.
    """
    inside = [key for key in stuck.closed.core if _needs_another_thread(stuck, key)]
    outside = [key for key in stuck.closed.core if key not in inside]
    one = len({pid for pid, _ in stuck.closed.core}) == 1
    joins = all(stuck.wait_state(key).kind is Wait.JOIN_THREAD for key in outside)
    return outside if one and inside and joins else []


def _needs_another_thread(stuck: StuckSet, key: ThreadKey) -> bool:
    stack = stuck.job.stacks.get(key)
    return in_barrier(stack) or (stack is not None and has(stack, "/queue.py", ("put",)))


def absent_party(stuck: StuckSet) -> list[ThreadKey]:
    """The parties missing from a barrier: members outside it that run the same function as a process inside it; if there are
    none, all members outside it; empty if any of the remaining members waits for something other than a process's end.
    """
    inside = [key for key in stuck.closed.core if in_barrier(stuck.job.stacks.get(key))]
    outside = [key for key in stuck.closed.core if key not in inside]
    if stuck.ending not in (Ending.CYCLE, Ending.OPEN) or not inside or len({pid for pid, _ in stuck.closed.core}) < 2:
        return []
    if resting := _resting_siblings(stuck, inside):
        return resting
    targets = {stuck.job.role(pid).target for pid, _ in inside} - {None}
    alike = [key for key in outside if stuck.job.role(key[0]).target in targets]
    only_join = all(key in alike or stuck.wait_state(key).kind in ENDS for key in outside)
    return (alike or outside) if only_join else []


def _resting_siblings(stuck: StuckSet, inside: list[ThreadKey]) -> list[ThreadKey]:
    """Workers of the same pool or loader as those in the barrier that share it, and wait for work."""
    roles = [stuck.job.role(pid) for pid, _ in inside]
    families = {(role.kind, role.parent) for role in roles if role.kind in WORKERS}
    others = dict.fromkeys(target for key in inside for target in stuck.targets(key) if isinstance(target, tuple))
    alike = [key for key in others if (stuck.job.role(key[0]).kind, stuck.job.role(key[0]).parent) in families]
    return [key for key in alike if stuck.wait_state(key).idle]


_REQUESTS = frozenset({Wait.LOADER_BATCH, Wait.POOL_RESULT, Wait.FUTURE_RESULT})


def is_client(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread called a library and waits for the result."""
    return bool(stuck.job.shape(key).asks) or stuck.wait_state(key).kind in _REQUESTS


def _is_servant(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread runs user code on behalf of another process."""
    found = context(stuck.job.stacks.get(key))
    return found is not None and found[0] in (Context.DATALOADER_WORKER, Context.POOL_WORKER)


def _helpers(stuck: StuckSet, key: ThreadKey) -> list[ThreadKey]:
    """The targets of a member's wait that are in the core."""
    return [target for target in stuck.targets(key) if isinstance(target, tuple) and target in stuck.closed.core]


def _keepers_of_permits(stuck: StuckSet) -> list[ThreadKey]:
    return list(kept_permits(stuck))


OF_EACH_OTHER: tuple[Callable[[StuckSet], Sequence[ThreadKey]], ...] = (
    _not_accepting, _clients_at_fault, _owing_answers, exchanging, _takers, _owing, _keepers_of_permits, _whose_end_is_awaited,
    absent_party, _joining_threads, _starters, _makers_of_room, _holders_of_locks, unfinished_tasks, _awaited_tasks,
    _stuck_inside, hub,
)  # fmt: skip
"""Of members that wait for each other: the ways in which some are responsible, of which the first that applies counts. How often
that order matters is a score (`tests.scores`).
"""
