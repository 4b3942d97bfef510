"""Whether each thread makes progress, and since when it has not: its history, judged by what it waits for.

That a thread runs is no progress by itself: one that repeats a request and gets the same answer polls.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from mpmon.diagnosis.gpus.joins import Gpus
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.progress.motion import (
    Motion,
    gets_on,
    is_frozen,
    motion,
    renewed_since,
    same_poll_since,
    same_since,
    share,
    till_now,
)
from mpmon.diagnosis.progress.state_change import (
    got_nothing_since,
    keep_changing,
    looked_in_vain_since,
    only_polled_since,
    retried_in_vain_since,
    same_answer_since,
)
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, EXCHANGES, LOCKS, REQUESTS, Wait, has_no_limit, polled
from mpmon.diagnosis.state.history import History, Sample, ThreadHistory, ThreadKey
from mpmon.diagnosis.state.thread_waits import ThreadWaits
from mpmon.diagnosis.thresholds import LOOKS_SPAN_S, POLLS_SHARE
from mpmon.model import KernelObject, Snapshot

_ASKS_OTHERS = EXCHANGES | LOCKS | REQUESTS | {Wait.POLL, Wait.JOIN_PROCESS, Wait.JOIN_THREAD, Wait.CHILD}
"""Waits for an action of another thread: if such a wait times out, the action has not come."""


class ThreadMotions(ThreadWaits):
    """The motions of the threads of one snapshot."""

    def __init__(self, history: History, snapshot: Snapshot, memory: Memo | None = None) -> None:
        """As `SnapshotIndex`."""
        super().__init__(history, snapshot, memory)
        self._motions: dict[ThreadKey, Motion] = {}
        self._working: dict[int, tuple[ThreadKey, ...]] = {}

    @cached_property
    def gpus(self) -> Gpus:
        """Which process uses which GPU."""
        return Gpus(self)

    def motion(self, key: ThreadKey) -> Motion:
        """Whether a thread made progress lately."""
        if key not in self._motions:
            past = self.thread_history(key)
            if past is None or is_frozen(past, self.now):
                self._motions[key] = motion(past, self.now)
            else:
                found = self.memory.same(("motion", key), _gets_on, past.samples)
                if found is Motion.PROGRESSING and self._only_enters(key, past.samples):
                    found = Motion.POLLING
                moves = till_now(found, past, self.now)
                may_ask = moves is Motion.PROGRESSING or (moves is Motion.UNKNOWN and key[0] in self.foreign)
                asks = may_ask and self.asks_since(key) is not None
                self._motions[key] = Motion.POLLING if asks else moves
        return self._motions[key]

    def _only_enters(self, key: ThreadKey, samples: tuple[Sample, ...]) -> bool:
        """The thread polls to enter a `with` block, and all that changes is what this call leads to."""
        wanted = self.block_wanted(key)
        if wanted is None or gets_on(samples) is not Motion.POLLING:
            return False
        return not keep_changing(samples, outside=wanted.depth)

    def asks_since(self, key: ThreadKey) -> float | None:
        """Since when a thread has been repeating a request and getting the same answer, though in a new object each time: a wait
        that timed out, a loop that only looks for something or, for a rank that others wait for, a status file or a directory
        listing; or, for a library's thread beside its server in C, since when no event has come. `None` if it has not.
        """
        past, kind = self.thread_history(key), self.local_wait(key).kind
        if past is None:
            return None
        if key[0] in self.foreign:
            return self._polls_again_since(key, past)
        since = self._polled_since(key, past)
        since = None if since is None or self.now - since < LOOKS_SPAN_S else since
        if since is None and (kind in _ASKS_OTHERS or self._keeps_ranks_waiting(key)):
            since = self.memory.same(("asks", key), same_answer_since, past.samples)
        if since is not None or share(past.samples) > POLLS_SHARE:
            return since
        if kind is Wait.POLL and key[0] != key[1] and self.shape(key).serves and self.accepts_in_c(key):
            return self.memory.same(("renews", key), renewed_since, past.samples)
        if kind in COMES_BY_READING or (kind in _ASKS_OTHERS and polled(self.stacks.get(key)) is not None):
            return self.memory.same(("got nothing", key), got_nothing_since, past.samples)
        looks = {Wait.SLEEP: looked_in_vain_since, Wait.PROCESS_EVENT: retried_in_vain_since}.get(kind)
        return self.memory.same(("looked", key), looks, past.samples) if looks else None

    def _polled_since(self, key: ThreadKey, past: ThreadHistory) -> float | None:
        """Since when a thread in a loop that only polls, or keeps books, has got the same answer."""
        stack = self.stacks.get(key)
        if stack is None or not (stack.polls_for is not None or self.keeps_books(key)):
            return None
        # What a queue between threads has brought does not show.
        shows = self.keeps_books(key) or self.local_wait(key).kind is not Wait.THREAD_QUEUE
        return self.memory.same(("only polls", key), only_polled_since, past.samples) if shows else None

    def _polls_again_since(self, key: ThreadKey, past: ThreadHistory) -> float | None:
        """The same for the only thread of a program that is not Python, and polls nothing but connections to servers outside the
        job, over which nothing has been sent or received, and its own wake-up.
        """
        process, items = self.processes[key[0]], list(self.waits_on(key))
        connected = [item for item in items if not self._is_own_pair(key[0], item)]
        if process.threads != 1 or not connected or not all(map(self._leads_out, connected)):
            return None
        if (since := self.memory.same(("polls", key), same_poll_since, past.samples)) is None:
            return None
        life = self.history.life(process)
        moved = [at for item in connected for at in (item.sent_at, item.received_at) if at is not None]
        return None if max((*moved, *(life.io_at if life else ())), default=since) > since else since

    def _is_own_pair(self, pid: int, item: KernelObject) -> bool:
        """Both ends are the process's own, by which its handlers wake it."""
        return item.path == "unix" and {row.pid for row in self.holders.get(item.peer or "", ())} == {pid}

    def _leads_out(self, item: KernelObject) -> bool:
        """It is a TCP connection to a process that is none of the job's, and the kernel tells when something last came."""
        near = item.listens or item.listener or self.holders.get(item.peer or "")
        return (item.path or "").startswith("tcp ") and item.received_at is not None and not near

    def _keeps_ranks_waiting(self, key: ThreadKey) -> bool:
        """The thread is the main thread of a rank, or of a process that works for one which is in no collective, and another rank
        is blocked in one.
        """
        rank, seen = key[0] if key[0] == key[1] else None, set[int]()
        # In a damaged recording processes may be their own ancestors.
        while rank is not None and rank not in self.ranks and rank not in seen:
            seen.add(rank)
            rank = self.role(rank).parent
        return rank in self.ranks and rank not in self._ranks_at_rest and bool(self._ranks_at_rest)

    @cached_property
    def _ranks_at_rest(self) -> frozenset[int]:
        """Ranks that are blocked in a collective."""
        stands = [pid for pid in self.ranks if self.local_wait((pid, pid)).kind is Wait.COLLECTIVE]
        return frozenset(
            pid for pid in stands if (past := self.thread_history((pid, pid))) and is_frozen(past, self.now)
        )

    def stands_since(self, key: ThreadKey) -> float:
        """Since when a thread has been blocked, seconds since the epoch."""
        past = self.thread_history(key)
        if past is not None and self.local_wait(key).kind is Wait.STOPPED:
            # Earlier samples at the same place may be from a loop that made progress.
            return past.ran_at
        asks_since = self.asks_since(key)
        if past is None or asks_since is not None:
            return self.now if asks_since is None else asks_since
        if self.local_wait(key).kind is Wait.EVENT_LOOP and has_no_limit(self.blocked.get(key)):
            # A loop without timers runs only because something has come.
            return past.ran_at
        stands = self.memory.same(("stands", key), same_since, past)
        # A loop that polls begins to stand once its answer no longer changes.
        return max(stands, self._polled_since(key, past) or stands)

    def gil_owner(self, key: ThreadKey) -> ThreadKey | None:
        """Another thread of the process that holds the GIL and makes no progress."""
        others = (other for other in self._gil_owners.get(key[0], ()) if other != key)
        return next((other for other in others if self.motion(other) in (Motion.NOT_SCHEDULED, Motion.BUSY_LOOP)), None)

    @cached_property
    def _gil_owners(self) -> dict[int, list[ThreadKey]]:
        """The threads of each process whose stacks were read while they had the GIL."""
        found: dict[int, list[ThreadKey]] = defaultdict(list)
        for key, stack in self.stacks.items():
            if stack.owns_gil:
                found[key[0]].append(key)
        return found

    def working_threads(self, pid: int) -> tuple[ThreadKey, ...]:
        """The threads of a process that are not legitimately idle, and do more than keep books; always the same tuple."""
        if pid not in self._working:
            rows = (key for key in self.threads(pid) if not self.local_wait(key).idle)
            self._working[pid] = tuple(key for key in rows if not self.keeps_books(key))
        return self._working[pid]

    def natives_at_work(self, pid: int) -> list[ThreadKey]:
        """Threads without Python frames that ran lately and do more than poll."""
        moved = [key for key in self.natives(pid) if self.motion(key) is not Motion.NOT_SCHEDULED]
        return [key for key in moved if not _ticks(self.thread_history(key))]


def _gets_on(samples: tuple[Sample, ...]) -> Motion:
    """Judged by the thread's frames; if these only show polling, by whether its variables change."""
    found = gets_on(samples)
    return Motion.PROGRESSING if found is Motion.POLLING and keep_changing(samples) else found


def _ticks(past: ThreadHistory | None) -> bool:
    """Most samples find the thread in a timed wait, as with a watchdog or a heartbeat."""
    limits = [sample.blocked.has_limit for sample in (past.samples if past else ()) if sample.blocked]
    return 2 * sum(limits) > len(limits)
