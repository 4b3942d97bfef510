"""The content of a job's queues, and their producers and consumers.

The number of items in a queue follows from its semaphore: `put` takes a permit, `get` returns it
(Lib/multiprocessing/queues.py). The semaphore's value is in its first four bytes (`struct new_sem` of glibc's
internaltypes.h; the same in musl), and can be read from any process that maps it. Producers and consumers follow from
the ledger of each process: permits taken minus permits returned. After a fork the child's ledger is at the same
address.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Literal, TypeVar

from mpmon.model import Process
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.queues import UNBOUNDED
from mpmon.probes.ipc.looks import Look
from mpmon.probes.ipc.pipes import pipe_of, unread_bytes
from mpmon.probes.ipc.queues import Key, Place, Queue
from mpmon.probes.memory import Memory

PIPE_AGAIN_S = 3.0
"""Interval between two checks of one pipe."""

LEDGERS_SOON_S = 5.0
"""Interval between two reads of the ledgers of a process with a queue whose putters or getters are unknown; then
doubled each time.
"""

COUNTED_USERS, COUNTED_GETTERS = 16, 4
"""If more processes use a queue, or get from it, their counts are not read."""

VALUE = 2**31 - 1
"""Bits of a semaphore's value; musl uses the next higher bit as a mark for waiters."""

T = TypeVar("T")

_LEDGER = struct.Struct("=QQQQii")
"""SemLockObject: references, type, handle, last thread, count, maximum."""


class Contents:
    """Reads queues in turns."""

    def __init__(self, proc: Proc, *, per_round: int, ledgers_per_round: int, ledgers_again_s: float) -> None:
        """Limits of queues, and of processes whose ledgers are read, per round; and the pause between reads of one."""
        self._proc = proc
        self._per_round = per_round
        self._ledgers_per_round = ledgers_per_round
        self._ledgers_again_s = ledgers_again_s
        self._turn = 0
        self._names: frozenset[str] = frozenset()
        self._asked: dict[Key, tuple[float, float]] = {}
        """When the ledgers of each process are to be read again, and the pause until then, seconds."""
        self.gone: list[str] = []
        """Queues that no process has any more."""
        self.lost: set[int] = set()
        """Processes that no longer have what they had, and must be read again."""

    def read(
        self, known: Mapping[str, Queue], looks: Mapping[int, Look], processes: Mapping[int, Process], now: float
    ) -> None:
        """The content of some queues, and the ledgers of some processes."""
        self.gone, self.lost = [], set()
        with _Memories(self._proc) as memories:
            for name in _next(sorted(known), self._turn, self._per_round):
                self._read_queue(known[name], looks, processes, memories, now)
                known[name].renew()
            for process in self._next_users(known, looks, processes, now):
                _read_ledgers(process, looks[process.pid], known, memories)
        self._turn += self._per_round

    def _next_users(
        self, known: Mapping[str, Queue], looks: Mapping[int, Look], processes: Mapping[int, Process], now: float
    ) -> list[Process]:
        """The processes whose ledgers are read in this round: first one for each queue with unknown putters or getters,
        then others.
        """
        new = {queue.ids.get("room") for name, queue in known.items() if name not in self._names}
        self._names = frozenset(known)
        users = [processes[pid] for pid in looks if pid in processes]
        users = [user for user in users if any(_place(user, queue, looks[user.pid]) for queue in known.values())]
        kept = (user.key for user in users if user.key in self._asked and new.isdisjoint(looks[user.pid].names))
        self._asked = {key: self._asked[key] for key in kept}
        due = [user for user in users if user.key not in self._asked or now >= self._asked[user.key][0]]
        due.sort(key=lambda user: self._asked.get(user.key, (0.0, 0.0)))
        untold = {queue.ids.get("room") for queue in known.values() if not (queue.putters and queue.getters)}
        chosen: list[Process] = []
        left = set(untold)
        for user in due:
            if len(chosen) < self._ledgers_per_round and not left.isdisjoint(looks[user.pid].names):
                chosen.append(user)
                left -= looks[user.pid].names
        chosen += [user for user in due if user not in chosen][: self._ledgers_per_round - len(chosen)]
        for user in chosen:
            self._note_asked(user, now, told=untold.isdisjoint(looks[user.pid].names))
        return chosen

    def _note_asked(self, user: Process, now: float, *, told: bool) -> None:
        """Putters and getters hardly ever change; but those of a queue that was unused when its ledgers were read show
        only later.
        """
        _, before_s = self._asked.get(user.key, (0.0, LEDGERS_SOON_S / 2))
        pause_s = self._ledgers_again_s if told else min(2 * before_s, self._ledgers_again_s)
        self._asked[user.key] = (now + pause_s, pause_s)

    def _read_queue(
        self, queue: Queue, looks: Mapping[int, Look], processes: Mapping[int, Process], memories: _Memories, now: float
    ) -> None:
        refused = False
        for pid, place in _places(queue, looks, processes):
            try:
                there = self._read_pipe(queue, self._proc.path(pid, "fd", place.descriptor), now)
            except PermissionError:
                refused = True
                continue
            except OSError:
                there = False
            if there:
                queue.values = _values(place, memories.of(pid))
                queue.problem = "" if queue.values else "the memory of the processes that have it cannot be read"
                queue.ledgers = _ledgers(queue, looks, processes, memories)
                queue.taken = _taken(queue)
                queue.undone = _undone(queue, looks, processes, memories)
                queue.by_ended = _by_ended(queue, looks, processes, memories)
                return
            self.lost.add(pid)
        queue.values, queue.unread, queue.problem = {}, None, "its pipe cannot be opened"
        queue.ledgers, queue.taken, queue.undone, queue.by_ended = (), None, (), None
        if not refused:
            self.gone.append(queue.name)

    def _read_pipe(self, queue: Queue, path: str, now: float) -> bool:
        """Whether the descriptor is still that of the queue.

        Raises:
            OSError: it cannot be opened.
        """
        if now - queue.pipe_read_at < PIPE_AGAIN_S:
            return pipe_of(path) == queue.name
        unread = unread_bytes(path, queue.name)
        if unread is None:
            return False
        queue.unread, queue.pipe_read_at = unread, now
        return True


class _Memories:
    """The memories of some processes, open for the length of a `with` block."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._open: dict[int, Memory | None] = {}
        self._all = ExitStack()

    def __enter__(self) -> _Memories:
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()

    def of(self, pid: int) -> Memory | None:
        """`None` if it cannot be read."""
        if pid not in self._open:
            try:
                self._open[pid] = self._all.enter_context(Memory(self._proc, pid))
            except OSError:
                self._open[pid] = None
        return self._open[pid]


def _next(everything: Sequence[T], turn: int, most: int) -> list[T]:
    """The next elements, starting at `turn`."""
    count = len(everything)
    return [everything[(turn + place) % count] for place in range(min(most, count))]


def _places(queue: Queue, looks: Mapping[int, Look], processes: Mapping[int, Process]) -> Iterator[tuple[int, Place]]:
    """Processes that have it: first those that were searched, then forks, where it is at the same place as in the
    parent.
    """
    for pid, start in queue.places:
        if pid in processes and processes[pid].start_time == start:
            yield pid, queue.places[pid, start]
    mine = frozenset(queue.ids.values())
    for pid, look in looks.items():
        process = processes.get(pid)
        if process and process.forked and process.key not in queue.places and look.has_any(mine):
            yield pid, queue.first


def _values(place: Place, memory: Memory | None) -> dict[str, int]:
    """The values of the queue's semaphores."""
    words = {part: memory.unpack("I", lock.word) for part, lock in place.parts.locks() if memory}
    return {part: found[0] & VALUE for part, found in words.items() if found}


def _read_ledgers(process: Process, look: Look, known: Mapping[str, Queue], memories: _Memories) -> None:
    """What one process took from the room of each queue, and returned."""
    for queue in known.values():
        if process.key in queue.users:
            continue
        count = _count(process, queue, look, memories)
        if count:
            _note_user(queue, process, count)
            queue.renew()


def _note_user(queue: Queue, process: Process, count: int) -> None:
    (queue.putters if count > 0 else queue.getters).add(process.key)


def _ledgers(
    queue: Queue, looks: Mapping[int, Look], processes: Mapping[int, Process], memories: _Memories
) -> tuple[tuple[int, int], ...]:
    """Items put minus items taken, for each user; with too many users only for getters, or for none."""
    keys = queue.users if len(queue.users) <= COUNTED_USERS else queue.getters
    if keys is queue.getters and len(keys) > COUNTED_GETTERS:
        return ()
    users = (processes[pid] for pid, _ in keys if pid in looks and pid in processes)
    known = sorted((process for process in users if process.key in keys), key=lambda process: process.pid)
    counts = ((process.pid, _count(process, queue, looks[process.pid], memories)) for process in known)
    return tuple((pid, count) for pid, count in counts if count is not None)


def _taken(queue: Queue) -> int | None:
    """Items that the getters took; `None` unless the counts of all are known."""
    told = dict(queue.ledgers)
    counts = [told.get(pid) for pid, _ in queue.getters]
    known = [count for count in counts if count is not None]
    return -sum(known) if counts and len(known) == len(counts) else None


def _by_ended(
    queue: Queue, looks: Mapping[int, Look], processes: Mapping[int, Process], memories: _Memories
) -> int | None:
    """Items put minus items taken by ended processes. If the sum does not match, all processes with the queue are read
    again: one of them may have begun to use it.
    """
    items = queue.items()
    if items is None or items == sum(count for _, count in queue.ledgers):
        return items if items is None else 0
    if not processes.keys() <= looks.keys():
        return None
    having = [process for pid, process in processes.items() if queue.ids.get("room") in looks[pid].names]
    asked = having if len(having) <= COUNTED_USERS else []
    counts = [(process, _count(process, queue, looks[process.pid], memories)) for process in asked]
    known = [(process, count) for process, count in counts if count is not None]
    for process, count in known:
        if count and process.key not in queue.users:
            _note_user(queue, process, count)
    return items - sum(count for _, count in known) if known and len(known) == len(having) else None


def _undone(
    queue: Queue, looks: Mapping[int, Look], processes: Mapping[int, Process], memories: _Memories
) -> tuple[tuple[int, int], ...]:
    """Items that each user has taken and not reported as done.

    `put` takes room and adds a task, `get` returns room, `task_done` takes a task away: items put cancel out.
    """
    if "tasks" not in queue.ids:
        return ()
    users = ((processes[pid], put) for pid, put in queue.ledgers)
    counts = ((user.pid, put, _count(user, queue, looks[user.pid], memories, "tasks")) for user, put in users)
    return tuple((pid, -put - tasks) for pid, put, tasks in counts if tasks is not None)


def _count(
    process: Process, queue: Queue, look: Look, memories: _Memories, part: Literal["room", "tasks"] = "room"
) -> int | None:
    """The count that the ledger of one process gives for a queue."""
    return _ledger(_place(process, queue, look), queue, look, memories.of(process.pid), part)


def _place(process: Process, queue: Queue, look: Look) -> Place | None:
    """Where one process has a queue; `None` if it does not have it, or was sent it and keeps it at an unknown place."""
    if queue.ids.get("room") not in look.names:
        return None
    return queue.places.get(process.key) or (queue.first if process.forked else None)


def _ledger(
    place: Place | None, queue: Queue, look: Look, memory: Memory | None, part: Literal["room", "tasks"]
) -> int | None:
    """Permits taken minus permits returned; `None` if the ledger is not there."""
    lock = (place.parts.room if part == "room" else place.parts.tasks) if place else None
    text = memory.read(lock.ledger, _LEDGER.size) if lock and memory else None
    if text is None:
        return None
    _, _, handle, _, count, most = _LEDGER.unpack(text)
    # Memory reused for something else would hardly hold the address and size of this very semaphore.
    return count if look.semaphores.get(handle) == queue.ids[part] and most == _most(queue, part) else None


def _most(queue: Queue, part: Literal["room", "tasks"]) -> int | None:
    return queue.most if part == "room" else UNBOUNDED
