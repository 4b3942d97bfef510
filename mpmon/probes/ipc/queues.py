"""The multiprocessing queues of a job, found in the memory of the programs that have them.

The creator of a queue knows all of it, so parents are searched before their children, and a child only if it has
semaphores that no search has explained yet; a process that was sent a queue (spawn, forkserver) is searched once for
the place of its ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from mpmon.model import Process, QueueState, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.queues import UNBOUNDED, QueueObject, queues
from mpmon.probes.ipc.looks import Look
from mpmon.probes.ipc.pipes import pipe_of
from mpmon.probes.maps import areas
from mpmon.rows import kept

TRIES = (0.0, 5.0, 30.0, 120.0)
"""Seconds after the first search at which a process is searched again while it has an unexplained semaphore."""

MOST_QUEUES = 2048

KEPT_ENDED = 16
"""The most recently ended putters and getters that are remembered. A pool that renews its workers leaves an endless
series.
"""

Key = tuple[int, float]
"""Pid and start time."""

NO_PYTHON = "no interpreter"
"""The beginning of the reason why a process that is not Python has no queues."""


class Place(msgspec.Struct, frozen=True):
    """Where one process has a queue."""

    descriptor: int
    parts: QueueObject


class Queue:
    """One queue, and what is known of it so far."""

    def __init__(self, name: str, pid: int, first: Place, ids: dict[str, str]) -> None:
        self.name = name
        """`pipe:INODE`."""
        self.pid = pid
        self.first = first
        """Where it was found, and the places of processes forked afterwards."""
        self.most = first.parts.most
        """Permits when it is empty."""
        self.ids = ids
        """Ids of its semaphores, by `room`, `read_lock`, `write_lock`, `tasks`, `joined`."""
        self.places: dict[Key, Place] = {}
        self.values: dict[str, int] = {}
        """Values of its semaphores, as last read."""
        self.unread: int | None = None
        self.pipe_read_at = float("-inf")
        self.problem = ""
        """Why its content cannot be read."""
        self.putters: set[Key] = set()
        self.getters: set[Key] = set()
        self.taken: int | None = None
        """By the getters' ledgers."""
        self.ledgers: tuple[tuple[int, int], ...] = ()
        self.undone: tuple[tuple[int, int], ...] = ()
        self.by_ended: int | None = None
        self.row: QueueState = self._build()
        """As the snapshot shows it; the very same row while nothing changed."""

    @property
    def users(self) -> set[Key]:
        """Processes known to put or get."""
        return self.putters | self.getters

    def forget(self, alive: Collection[Key]) -> None:
        """All other processes have ended."""
        self.places = {key: place for key, place in self.places.items() if key in alive}
        self.putters = _without_long_ended(self.putters, alive)
        self.getters = _without_long_ended(self.getters, alive)

    def renew(self) -> None:
        """Rebuild the row."""
        row = self._build()
        self.row = self.row if row == self.row else row

    def _build(self) -> QueueState:
        return QueueState(
            object=self.name, kind=self.first.parts.kind, pid=self.pid, capacity=None if self.most == UNBOUNDED else self.most,
            items=self.items(), unread_bytes=self.unread, **self.ids, read_locked=self._is_taken("read_lock"),
            write_locked=self._is_taken("write_lock"), putters=_pids(self.putters), getters=_pids(self.getters), taken=self.taken,
            ledgers=self.ledgers, by_ended=self.by_ended, unfinished=self.values.get("tasks"), undone=self.undone,
            reasons=self._reasons(),
        )  # fmt: skip

    def items(self) -> int | None:
        """Items put and not taken yet."""
        left = self.values.get("room")
        return None if left is None or self.most is None or left > self.most else self.most - left

    def _is_taken(self, lock: str) -> bool | None:
        value = self.values.get(lock)
        return None if value is None else value == 0

    def _reasons(self) -> dict[str, str]:
        reasons: dict[str, str] = {}
        if self.first.parts.kind == "SimpleQueue":
            reasons["items"] = "a SimpleQueue does not count its items"
        elif "room" not in self.values:
            reasons["items"] = self.problem or "its semaphore cannot be read"
        elif self.items() is None:
            reasons["items"] = "its semaphore has an impossible value"
        if self.unread is None and self.problem:
            reasons["unread_bytes"] = self.problem
        return reasons


class _Asked:
    """When one process was searched, and with which semaphores."""

    def __init__(self, at: float, names: frozenset[str]) -> None:
        self.first_at = at
        self.names = names
        """The semaphores it had."""
        self.tries = 0
        self.done = False
        self.explained: frozenset[str] = frozenset()
        self.problem: Unknown | None = None

    def refuse(self, pid: int, reason: str) -> None:
        """The search failed."""
        self.explained = frozenset()
        self.problem = Unknown(table="queues", pid=pid, reason=reason)


class Queues:
    """All queues found in the job."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._asked: dict[Key, _Asked] = {}
        self._waiting: set[int] = set()
        """Processes that may still have to be searched."""
        self.known: dict[str, Queue] = {}
        self._rows: tuple[QueueState, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether a process may have to be searched although none was read."""
        return bool(self._waiting)

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """Processes whose queues could not be found."""
        return tuple(asked.problem for asked in self._asked.values() if asked.problem)

    def settle(
        self, fresh: Iterable[int], looks: Mapping[int, Look], processes: Mapping[int, Process], now: float
    ) -> list[Process]:
        """Of the processes just read, and those due for another search, the ones to search now.

        Parents come before their children, which have the same queues.
        """
        self._waiting = {pid for pid in (*self._waiting, *fresh) if pid in looks and pid in processes}
        explained = {name for asked in self._asked.values() for name in asked.explained}
        promised = set(explained)
        due: list[Process] = []
        for process in sorted((processes[pid] for pid in self._waiting), key=lambda row: (row.start_time, row.pid)):
            names = looks[process.pid].names
            sent = self._was_sent(process, names, processes)
            if self._is_settled(process, names) or (names <= explained and not sent):
                self._waiting.discard(process.pid)
            elif (sent or not names <= promised) and self._is_time(process, names, now):
                due.append(process)
                promised |= names
        return due

    def forget(self, processes: Mapping[int, Process]) -> None:
        """Forget processes that have ended."""
        alive = {process.key for process in processes.values()}
        self._asked = {key: asked for key, asked in self._asked.items() if key in alive}
        for queue in self.known.values():
            queue.forget(alive)

    def _was_sent(self, process: Process, names: frozenset[str], processes: Mapping[int, Process]) -> bool:
        """Whether it got queues from another process, but not by a fork: a fork server's child inherits nothing of the job."""
        queue = next((queue for queue in self.known.values() if queue.ids.get("room") in names), None)
        return queue is not None and not _is_heir(process, queue, processes)

    def _is_settled(self, process: Process, names: frozenset[str]) -> bool:
        """Whether there is nothing to search for, or nothing more to be found."""
        asked = self._asked.get(process.key)
        told = asked is not None and names <= asked.names and (asked.done or asked.tries >= len(TRIES))
        return told or not names

    def _is_time(self, process: Process, names: frozenset[str], now: float) -> bool:
        asked = self._asked.get(process.key)
        return asked is None or not names <= asked.names or now >= asked.first_at + TRIES[asked.tries]

    def ask(self, process: Process, look: Look, processes: Mapping[int, Process], now: float) -> None:
        """Search one process's memory for its queues."""
        asked = self._asked.get(process.key)
        if asked is None or not look.names <= asked.names:
            asked = self._asked[process.key] = _Asked(now, look.names)
        asked.tries += 1
        try:
            everything = areas(self._proc, process.pid)
        except OSError as refused:
            asked.refuse(process.pid, f"mappings cannot be read ({(refused.strerror or 'failed').lower()})")
            return
        found = queues(self._proc, process.pid, everything)
        if found.problem and not found.problem.startswith(NO_PYTHON):
            asked.refuse(process.pid, found.problem)
        else:
            # A process that was sent a queue may not have begun to use it.
            asked.done = found.whole and (bool(found.queues) or not self._was_sent(process, look.names, processes))
            asked.explained, asked.problem = look.names, None
        semaphores = {area.start: name for area in everything if (name := area.semaphore)}
        for thing in found.queues:
            self._note(process, thing, semaphores)

    def _note(self, process: Process, thing: QueueObject, semaphores: Mapping[int, str]) -> None:
        for descriptor in thing.descriptors:
            name = pipe_of(self._proc.path(process.pid, "fd", descriptor))
            if name is None:
                continue
            place = Place(descriptor, thing)
            if name not in self.known and len(self.known) < MOST_QUEUES:
                ids = {part: semaphores[lock.word] for part, lock in thing.locks() if lock.word in semaphores}
                self.known[name] = Queue(name, process.pid, place, ids)
            if name in self.known:
                self.known[name].places[process.key] = place
            return

    def drop(self, names: Iterable[str]) -> None:
        """These queues no longer exist."""
        for name in names:
            del self.known[name]

    def rows(self) -> tuple[QueueState, ...]:
        """One row per queue."""
        self._rows = kept(tuple(self.known[name].row for name in sorted(self.known)), self._rows)
        return self._rows


def _is_heir(process: Process, queue: Queue, processes: Mapping[int, Process]) -> bool:
    """Whether the process, or an ancestor through forks alone, was searched and has the queue."""
    while process.key not in queue.places:
        parent = processes.get(process.ppid)
        if not process.forked or parent is None:
            return False
        process = parent
    return True


def _without_long_ended(keys: set[Key], alive: Collection[Key]) -> set[Key]:
    ended = sorted((key for key in keys if key not in alive), key=lambda key: (key[1], key[0]))
    return keys.difference(ended[:-KEPT_ENDED])


def _pids(keys: set[Key]) -> tuple[int, ...]:
    return tuple(sorted(pid for pid, _ in keys))
