"""One snapshot and its history, judged: what each thread waits for, whether it makes progress, who could unblock it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from mpmon.diagnosis.gpus.spins import Spin, spins
from mpmon.diagnosis.ipc import Ipc
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.ranks.sequence_numbers import Numbers
from mpmon.diagnosis.ranks.world import World
from mpmon.diagnosis.roles import is_python
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, Wait, WaitState, context, polled
from mpmon.diagnosis.state.history import History, ThreadKey
from mpmon.diagnosis.state.thread_motions import ThreadMotions
from mpmon.diagnosis.state.thread_waits import in_collective
from mpmon.diagnosis.thresholds import GPU_STANDS_LONG_S
from mpmon.model import Snapshot

T = TypeVar("T")

_LOOKS_IN = frozenset({Wait.SLEEP, Wait.LAUNCHER, Wait.COLLECTIVE, Wait.SIGNAL})
"""Waits in which a thread may run indefinitely without helping others: a monitor, a launcher, a busy wait."""


class JobState(ThreadMotions):
    """The tables of a snapshot, and judgements that join several of them. Everything is computed on first use."""

    def __init__(self, history: History, snapshot: Snapshot, memory: Memo | None = None) -> None:
        super().__init__(history, snapshot, memory)
        self._made: dict[object, Any] = {}

    @cached_property
    def numbers(self) -> Numbers:
        """The collective sequence numbers from the ranks' Flight Recorders."""
        return Numbers(self, self.local_wait)

    @cached_property
    def world(self) -> World:
        """Which ranks of the job are not observed."""
        return World(self)

    @cached_property
    def spins(self) -> tuple[Spin, ...]:
        """Devices whose kernels only spin."""
        return spins(self)

    @cached_property
    def ipc(self) -> Ipc:
        """What the processes share: queues, memory, CUDA memory sent between them."""
        return Ipc(self.snapshot, self.roles, self.history.queue_parts)

    def of(self, kind: Callable[[JobState], T]) -> T:
        """What a class makes of this job; it is made once."""
        if kind not in self._made:
            self._made[kind] = kind(self)
        return self._made[kind]

    # What a thread waits for

    def wait_state(self, key: ThreadKey) -> WaitState:
        """What a thread waits for."""
        return self._in_collectives.get(key) or self.local_wait(key)

    @cached_property
    def _in_collectives(self) -> dict[ThreadKey, WaitState]:
        """Main threads of ranks that have long been computing at one line, or sleeping there, while their GPUs spin. A
        long computation looks the same, but the Flight Recorders show that these ranks have begun a collective that
        others have not.
        """
        if not self.snapshot.flight_records:
            return {}
        heads = (pid for spin in self.spins if self.now - spin.since >= GPU_STANDS_LONG_S for pid in spin.heads)
        own = (Wait.RUNNING, Wait.GPU)
        spinning = [pid for pid in heads if pid in self.ranks and self.local_wait((pid, pid)).kind in own]
        waiting = [pid for pid in spinning if self.numbers.lag(pid) or self.numbers.clash(pid)]
        return {(pid, pid): in_collective() for pid in waiting}

    def was_asked_to_end(self, key: ThreadKey) -> bool:
        """A main thread that waits to be given work, such as its next request, while its process holds off a SIGTERM."""
        rests = self.wait_state(key).idle or any(item.listens for item in self.waits_on(key))
        rests = rests or self.wait_state(key).kind in COMES_BY_READING
        return key[0] == key[1] and self.processes[key[0]].holds_off_term and rests

    def may_be_called(self, pid: int) -> bool:
        """A handler of the process may run: when its alarm is due, or another program asks it to do something."""
        return self.processes[pid].catches_alarm or self.processes[pid].catches_call

    def only_sleeps(self, key: ThreadKey) -> bool:
        """The thread stays for ever in a loop that does nothing for others, see `Stack.only_sleeps`."""
        stack = self.stacks.get(key)
        return stack is not None and stack.only_sleeps and self.wait_state(key).kind in (Wait.SLEEP, Wait.SIGNAL)

    def others_at_work(self, key: ThreadKey) -> list[ThreadKey]:
        """The other Python threads of the process that are not legitimately idle and do more than keep books: any of them might
        act instead.
        """
        others = (other for other in self.threads(key[0]) if other != key and not self.wait_state(other).idle)
        return [other for other in others if not self.keeps_books(other)]

    def serves_in_c(self, key: ThreadKey) -> bool:
        """The thread waits in a server that a library such as gRPC runs in native threads, one of which accepts connections.
        In a rank, threads with unread C frames do not count, as they may be torch's.
        """
        return self.wait_state(key).kind is Wait.FUTEX and self.accepts_in_c(key)

    def programs_beside(self, pid: int) -> list[int]:
        """The other programs of the job on the same machine that may do something by themselves, such as write a file; of those
        that are not Python, the ones that do.
        """
        host = self.processes[pid].host
        return [other for other in self.doers if other != pid and self.processes[other].host == host]

    @cached_property
    def doers(self) -> tuple[int, ...]:
        """The programs of the job that may do something by themselves; of those that are not Python, the ones that do."""
        mains = [(row, self.motion((row.pid, row.pid))) for row in self.processes.values() if self.may_act(row.pid)]
        moving = (Motion.PROGRESSING, Motion.BUSY_LOOP)
        return tuple(row.pid for row, moves in mains if is_python(row) or moves in moving)

    @cached_property
    def at_work(self) -> frozenset[int]:
        """Processes whose main thread makes progress or computes, and does more than poll or monitor others."""
        alive = [pid for pid in self.processes if self.may_act(pid)]
        return frozenset(
            pid for pid in alive if self.motion((pid, pid)) in (Motion.PROGRESSING, Motion.BUSY_LOOP)
            and (self.wait_state((pid, pid)).kind not in _LOOKS_IN or self._works_between_naps(pid))
            and polled(self.stacks.get((pid, pid))) is None
            and not self.wait_state((pid, pid)).idle
        )  # fmt: skip

    def ended_at(self, pid: int) -> float | None:
        """When a process that was seen alive was first seen to have ended; `None` for all others."""
        process = self.processes.get(pid)
        life = self.history.life(process) if process else None
        seen = next((row.seen_at for row in reversed(self.snapshot.exits) if row.pid == pid), None)
        return life.ended_at if life and life.ended_at is not None else seen

    # Code that libraries run

    @cached_property
    def tasks(self) -> tuple[ThreadKey, ...]:
        """Threads in user code that a library called."""
        return tuple(key for key in self.stacks if self.is_alive(key[0]) and self.shape(key).runs)

    @cached_property
    def is_on_one_machine(self) -> bool:
        """No connection that was seen leads to another machine."""
        sockets = (item for item in self.snapshot.objects if item.kind == "socket" and not item.listens)
        return all(item.peer or not (item.path or "").startswith("tcp") for item in sockets)

    def _works_between_naps(self, pid: int) -> bool:
        """A rank, or a worker in a task, makes progress although its current wait is a sleep."""
        key = (pid, pid)
        return (
            self.wait_state(key).kind is Wait.SLEEP
            and self.motion(key) is Motion.PROGRESSING
            and (pid in self.ranks or context(self.stacks.get(key)) is not None)
        )
