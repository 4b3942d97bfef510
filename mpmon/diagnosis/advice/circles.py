"""What to do about members that wait for each other, by the kinds of their waits: the first row that applies counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mpmon.diagnosis.edges.imports import import_lock
from mpmon.diagnosis.responsibility.members import waits_for_room
from mpmon.diagnosis.responsibility.passed_round import kept_permits
from mpmon.diagnosis.responsibility.streams import in_given_stream
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, LOCKS, Wait, context, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def for_circle(stuck: StuckSet, keys: Sequence[ThreadKey]) -> tuple[str, ...]:
    """How these threads, or processes, are kept from waiting for each other."""
    return next(lines for applies, lines in _ROWS if applies(stuck, keys))


def _any(*kinds: Wait) -> Callable[[StuckSet, Sequence[ThreadKey]], bool]:
    return lambda stuck, keys: any(stuck.wait_state(key).kind in kinds for key in keys)


def _keeps_permits(stuck: StuckSet, _: Sequence[ThreadKey]) -> bool:
    return bool(kept_permits(stuck))


def _puts_and_waits_for_event(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return {stuck.wait_state(key).kind for key in keys} >= {Wait.PROCESS_EVENT, Wait.QUEUE_PUT}


def _in_barrier(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return all(in_barrier(stuck.job.stacks.get(key)) for key in keys)


def _for_last_tasks(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return _calls_queue(stuck, keys, "join")


def _calls_queue(stuck: StuckSet, keys: Sequence[ThreadKey], method: str) -> bool:
    """One of them is in a method of a queue between threads (Lib/queue.py)."""
    return any(has(stack, "/queue.py", (method,)) for key in keys if (stack := stuck.job.stacks.get(key)))


def _only_locks(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return all(_waits_for_lock(stuck, key) for key in keys) and not _imports(stuck, keys)


def _a_lock(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return any(_waits_for_lock(stuck, key) for key in keys)


def _waits_for_lock(stuck: StuckSet, key: ThreadKey) -> bool:
    """A lock that has a holder: semaphores that pass round permits have none."""
    edge, kind = stuck.graph.node(key).edge, stuck.wait_state(key).kind
    return kind is Wait.FILE_LOCK or (kind in LOCKS and edge is not None and edge.holder_known)


def _imports(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return any(import_lock(stuck.job, key) for key in keys)


def _at_terminal(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return any(item.kind in ("pty", "terminal") for key in keys for item in stuck.job.waits_on(key))


def _reads_given_input(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    reads = (key for key in keys if not waits_for_room(stuck, key))
    return any(in_given_stream(stuck.job, key) for key in reads) and not _any(*ENDS_OF_PROCESSES)(stuck, keys)


def _reads_inherited_input(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return any(in_given_stream(stuck.job, key) for key in keys) and _any(*ENDS_OF_PROCESSES)(stuck, keys)


def _only_room(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return all(_wants_room(stuck, key) for key in keys)


def _some_room(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return any(_wants_room(stuck, key) for key in keys)


def _wants_room(stuck: StuckSet, key: ThreadKey) -> bool:
    return waits_for_room(stuck, key) or _calls_queue(stuck, (key,), "put")


def _room_in_queue(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    return _any(Wait.QUEUE_PUT)(stuck, keys) or _calls_queue(stuck, keys, "put")


def _ranks_and_server(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    """Ranks ask a server for something that they need before they enter a collective."""
    return _any(Wait.COLLECTIVE)(stuck, keys) and _any(Wait.SOCKET, Wait.QUEUE_GET)(stuck, keys)


def _tasks(stuck: StuckSet, keys: Sequence[ThreadKey]) -> bool:
    """Threads of one process, one of them in a task of a pool or a library."""
    runs = any(stuck.job.shape(key).runs or context(stuck.job.stacks.get(key)) for key in keys)
    return runs and len({pid for pid, _ in keys}) == 1


def _always(_: StuckSet, __: Sequence[ThreadKey]) -> bool:
    return True


LAST_MESSAGE = (
    "Check the last message of each side: is it still in a buffer (missing flush), was it lost, or sent elsewhere?",
    "Or has its receiver already read it into a buffer of its own?",
)

_ROWS: tuple[tuple[Callable[[StuckSet, Sequence[ThreadKey]], bool], tuple[str, ...]], ...] = (
    (_keeps_permits, (
        "Give back what was taken on every path, also after an error: with, or try and finally.",
    )),
    (_puts_and_waits_for_event, (
        "Take the items while you wait for the event, or give the queue room for all of them (maxsize).",
    )),
    (_in_barrier, (
        "The barrier counts a party that never calls wait(): call it there, or lower the number of parties.",
    )),
    (_for_last_tasks, (
        "Call task_done() for every item, in a finally block: join() waits until it was called once for each.",
    )),
    (_only_locks, (
        "Take the locks in the same order everywhere, or use one lock.",
    )),
    (_imports, (
        "Do not wait for another thread while a module is being imported: start the work from a function.",
    )),
    (_any(Wait.FILE_LOCK), (
        "Release the lock (for a database: commit) before waiting for another process.",
    )),
    (_a_lock, (
        "Release the lock before waiting for the other one: hold none in join(), get() or a collective.",
    )),
    (_any(Wait.FILE_MARK), (
        "Write each file before waiting for the other one's, and end the wait with an error after a while.",
    )),
    (_at_terminal, (
        "Print what was read so far: the prompt differs from the expected one, or was already consumed.",
    )),
    (_reads_given_input, (
        "Close the program's standard input once everything is written; communicate() does, and reads the output meanwhile.",
        "If it answers line by line, flush on both sides: a question or an answer may still be in a buffer.",
    )),
    (_only_room, (
        "Take something out while putting: read in a separate thread, or give one of the buffers room for everything.",
    )),
    (_room_in_queue, (
        "Take items out until whoever puts them has ended, before waiting for it; or give the queue room for all of them.",
    )),
    (_some_room, (
        "Let one side read while the other writes: close unused ends, or use threads or communicate().",
    )),
    (_ranks_and_server, (
        "Let the server answer whoever asks: a thread for each connection, or multiprocessing.connection.wait().",
    )),
    (_any(Wait.JOIN_THREAD), (
        "Before join(), give the thread what it waits for: a sentinel, or the end of its input.",
        "In an event loop, do not block: await asyncio.to_thread(thread.join).",
    )),
    (_reads_inherited_input, (
        "Start a child that needs no input with stdin=DEVNULL: it inherits this process's input otherwise.",
    )),
    (_any(*ENDS_OF_PROCESSES, Wait.CHILD), (
        "Do not wait for a child that needs this process to go on: answer it meanwhile, or wait for it in another thread.",
    )),
    (_tasks, (
        "Tasks that wait for each other need a thread each: give the pool at least that many.",
        "Or take everything that a task needs at once.",
    )),
    (_any(Wait.CONDITION, Wait.PROCESS_EVENT, Wait.LOCK), (
        "Each waits for the other to act first (set an event, release a permit, put an item): let one act before it waits.",
    )),
    (_always, LAST_MESSAGE),
)  # fmt: skip
"""Each: when it applies, and what to do."""
