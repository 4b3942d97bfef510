"""Queues: content, producers, consumers, waiters, and lock holders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.ipc.ground import Ground
from mpmon.diagnosis.ipc.names import RESULTS, name_of, part
from mpmon.diagnosis.ipc.views import LockView, QueueView
from mpmon.diagnosis.libraries.torch_data import LOADER_WORKER
from mpmon.diagnosis.stacks.frames import has
from mpmon.model import Blocked, QueueRecord, QueueState, Stack
from mpmon.numerals import numeral

QUEUES_FILE = "multiprocessing/queues.py"
WITHOUT_SHIM = "only the shim counts them (mpmon run)"
BY_ENDS = "all processes with that end of its pipe; none was seen to use it"


def is_feeder(stack: Stack | None) -> bool:
    """The thread sends what `Queue.put` has left in its buffer."""
    return has(stack, QUEUES_FILE, ("_feed",))


def queues(ground: Ground) -> Iterator[QueueView]:
    """One view per queue, in the order in which their pipes were made."""
    states = {row.object: row for row in ground.snapshot.queues}
    for name in sorted(states.keys() | ground.records.keys(), key=_inode):
        yield _Joined(ground, name, states.get(name)).view()


def parts(ground: Ground) -> dict[str, str]:
    """The library part of each queue that has one, by its pipe, to be kept for as long as the queue exists. A part that
    relies on a guessed worker number is left out.
    """
    states = {row.object: row for row in ground.snapshot.queues}
    names = states.keys() | ground.records.keys()
    joined = {name: _Joined(ground, name, states.get(name)) for name in names - ground.parts.keys()}
    seen = {name: found for name, queue in joined.items() if not queue.is_guessed() and (found := queue.part())}
    return {name: ground.parts[name] for name in names & ground.parts.keys()} | seen


def _inode(name: str) -> tuple[int, str]:
    return (numeral(name.rpartition(":")[2]) or 0, name)


class _Joined:
    """All that is known of one queue."""

    def __init__(self, ground: Ground, name: str, state: QueueState | None) -> None:
        self._ground = ground
        self._name = name
        self._state = state
        self._records: list[QueueRecord] = ground.records.get(name, [])

    def view(self) -> QueueView:
        state, records = self._state, self._records
        waiting_put, waiting_get = self._waiting(to_put=True), self._waiting(to_put=False)
        producers, consumers = self._users()
        item = self._ground.objects.get(self._name)
        return QueueView(
            id=self._name, name=name_of(self.part(), self._records),
            kind=state.kind if state else records[0].kind,
            depth=state.items if state else None, capacity=self._capacity,
            bytes_unread=state.unread_bytes if state and state.unread_bytes is not None else item.fill if item else None,
            producers=producers or self._with_end(to_put=True), consumers=consumers or self._with_end(to_put=False),
            blocked_put=waiting_put, blocked_get=waiting_get,
            read_lock=self._lock(state.read_lock, "get", taken=state.read_locked) if state else None,
            write_lock=self._lock(state.write_lock, "put", taken=state.write_locked) if state else None,
            puts=sum(row.puts for row in records) if records else None,
            gets=sum(row.gets for row in records) if records else None,
            lost=sum(row.lost for row in records) if records else None,
            put_site=_latest((row.put_at, row.put_site) for row in records),
            get_site=_latest((row.get_at, row.get_site) for row in records),
            reasons=self._reasons(producers, consumers),
        )  # fmt: skip

    def part(self) -> str | None:
        """Its part in a library: as recognised earlier, else as it looks now."""
        kept = self._ground.parts.get(self._name)
        return kept or part(self._ground, *self._users(), bounded=self._capacity is not None) or self._part_by_ends()

    def _part_by_ends(self) -> str | None:
        """For a queue that a trainer reads and whose producers were not observed: the workers of a `DataLoader` put into the
        one queue that they share with their trainer and that it reads.
        """
        producers, consumers = self._users()
        if producers or len(consumers) != 1 or self._capacity is not None:
            return None
        workers = set(self._with_end(to_put=True)) - {*consumers}
        serve = (self._ground.role(pid) for pid in workers)
        if not all(role.kind == LOADER_WORKER and role.parent == consumers[0] for role in serve):
            return None
        others = {row.object for row in self._ground.snapshot.queues if row.getters == consumers} - {self._name}
        sharers = {row.pid for name in others for row in self._ground.holders.get(name, ())}
        return RESULTS if workers - sharers else None

    @property
    def _capacity(self) -> int | None:
        return self._state.capacity if self._state else self._records[0].capacity

    def is_guessed(self) -> bool:
        """Whether the number of its consumer, and so that of the queue, is a guess, or no producer was observed."""
        producers, consumers = self._users()
        if not producers and self._part_by_ends():
            return True
        return len(consumers) == 1 and self._name not in self._ground.parts and self._ground.role(consumers[0]).guessed

    def _users(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Observed producers and consumers."""
        state, records = self._state, self._records
        puts, gets = (row.pid for row in records if row.puts), (row.pid for row in records if row.gets)
        return (
            self._seen(state.putters if state else (), puts, self._waiting(to_put=True)),
            self._seen(state.getters if state else (), gets, self._waiting(to_put=False)),
        )

    def _reasons(self, producers: tuple[int, ...], consumers: tuple[int, ...]) -> dict[str, str]:
        known = self._state.reasons if self._state else {"items": self._why_unread()}
        reasons = {
            {"items": "depth", "unread_bytes": "bytes_unread"}.get(name, name): why for name, why in known.items()
        }
        if not self._records:
            reasons.update(dict.fromkeys(("puts", "gets", "lost"), WITHOUT_SHIM))
        reasons.update(
            {name: BY_ENDS for name, seen in (("producers", producers), ("consumers", consumers)) if not seen}
        )
        return reasons

    def _why_unread(self) -> str:
        pids = {row.pid for row in self._records}
        refused = (row.reason for row in self._ground.snapshot.unknowns if row.table == "queues" and row.pid in pids)
        return next(refused, "the memory of the processes that have it has not been read yet")

    # Who

    def _seen(self, *pids: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted({pid for some in pids for pid in some if self._ground.is_alive(pid)}))

    def _with_end(self, *, to_put: bool) -> tuple[int, ...]:
        """Processes that could, by the access mode of their descriptors."""
        handles = self._ground.holders.get(self._name, ())
        pids = (row.pid for row in handles if (row.writes if to_put else row.reads))
        return tuple(pid for pid in self._seen(pids) if not self._ground.is_helper(pid))

    def _waiting(self, *, to_put: bool) -> tuple[int, ...]:
        """Processes whose threads wait for room, for an item, or for the corresponding lock."""
        rows = [row for row in self._ground.waiting.get(self._name, ()) if row.writes == to_put]
        if self._state:
            parts = (self._state.room, self._state.write_lock) if to_put else (self._state.read_lock,)
            rows += [row for part in parts if part for row in self._ground.waiting.get(part, ())]
        return self._seen(row.pid for row in rows)

    # Locks

    def _lock(self, name: str | None, function: str, *, taken: bool | None) -> LockView | None:
        if name is None:
            return None
        holders = self._holders(name, function) if taken else ()
        return LockView(id=name, taken=taken, holders=holders, orphaned=bool(taken) and self._is_orphaned(name))

    def _holders(self, name: str, function: str) -> tuple[int, ...]:
        """By acquire counts if a thread waits for it; else the process that is in the pipe call made under that lock."""
        by_ledger = [use.pid for use in self._ground.uses.get(name, ()) if use.count > 0]
        inside = [row for row in self._ground.waiting.get(self._name, ()) if self._is_in(row, function)]
        return self._seen(by_ledger) or self._seen(row.pid for row in inside)

    def _is_in(self, row: Blocked, function: str) -> bool:
        stack = self._ground.stacks.get((row.pid, row.tid))
        functions = ("get",) if function == "get" else ("put", "_feed")
        return stack is not None and row.writes == (function == "put") and has(stack, QUEUES_FILE, functions)

    def _is_orphaned(self, name: str) -> bool:
        uses = {use.pid: use for use in self._ground.uses.get(name, ())}
        if not uses:
            return False
        users = {row.pid for row in self._ground.holders.get(name, ()) if not self._ground.is_helper(row.pid)}
        alive = {pid for pid in users if self._ground.is_alive(pid)}
        complete = bool(alive) and alive <= uses.keys() and name not in self._ground.outside
        return complete and all(uses[pid].count == 0 for pid in alive)


def _latest(sites: Iterable[tuple[float | None, str | None]]) -> str | None:
    known = [(at, site) for at, site in sites if at is not None and site]
    return max(known)[1] if known else None
