"""What the wait-for graph is made of: nodes, wait edges and their targets, and what was found in it."""

from __future__ import annotations

from enum import Enum

import msgspec

from mpmon.diagnosis.state.history import ThreadKey

FEW = 32
"""Up to this many targets are cheaper to visit than to remember."""


class Status(Enum):
    """What a node can do."""

    LIVE = "live"
    LEAF = "leaf"
    IDLE = "idle"
    WAITS = "waits"
    HIDDEN = "hidden"
    """It stands still in a wait that cannot be read: it may or may not be able to progress."""


class Exited(msgspec.Struct, frozen=True, gc=False):
    """A process that ended; no other process can act in its place."""

    pid: int
    how: str
    certain: bool = True
    """False if living processes could also help, so that the death may be unrelated."""
    status: int | None = None
    """As wait(2) gives it; `None` where it is not known."""


class Absent(Enum):
    """Why nobody alive can help, as recorded by the code that found out: nothing is inferred from the wait later."""

    HOLDER_ENDED = "a lock between processes, or permits of a semaphore, whose holder ended"
    SLEEPER_ENDED = "the word of a process that waited in a condition between processes, and ended before it woke"
    INHERITED = (
        "a lock of a file, or an end of a pipe, that a child got from its parent and does not use, while its parent has closed "
        "the file or has ended"
    )
    STATUS_TAKEN = (
        "the end of a child of which the process is never told, since another wait in it has taken its exit status"
    )
    NOT_SHARED = "an event, condition or barrier between processes that no other process has"
    LOCKED_AT_FORK = "a lock that was copied locked: its holder is a thread of the parent"
    NATIVE_AT_FORK = "a barrier of native threads that exist in the parent only"
    LEFT_IN_PARENT = "a thread that would answer, and that a fork did not copy"
    THREAD_ENDED = "a thread of the process that would answer"
    OWN_LOOP = "what only another task of the event loop could do that the waiting call holds up"
    OWN_LOCK = "a lock that only the waiting thread itself can have"
    ALONE = "a lock or an item of a queue that only another thread of the process could give, and it has none"
    FUTURE = (
        "a future of an event loop that watches nothing but its own wake-up, and that no thread or child could complete"
    )
    PERMIT_LOST = "a permit of a semaphore of the process that was taken and not given back"
    POOL_EMPTY = "a connection of a library's pool that was taken and not given back"
    NATIVE = "something in native code, and no thread of the process works"
    ITEM_LOST = "an item or result that no longer exists, while all who could make it wait for work"
    RESULT_LOST = "a result that its worker has sent and that the waiter's own process has lost"
    NOT_SENT = "an item that stays in the process that put it, which has no thread that would send it"
    ANSWER_TAKEN = "an item that a process took which has ended, and which was meant for this one"
    NOT_WOKEN = "a wake-up of an event loop that has something to run"
    NO_DESCRIPTORS = "a connection that its server cannot accept, as it has as many files open as it may"
    NOT_BEGUN = "a task of a library, all of whose workers wait for work"
    WORKER_REPLACED = "a result of a worker that died and that its pool has replaced"
    NO_WORKERS = "workers that do not exist"
    WORKERS_END = "workers that end as soon as they start"
    NO_OTHER_END = "the other end of a pipe, or another client of a server"
    OWN_END = "the other end of a pipe that only the waiting process itself has: neither data nor their end can come"
    OWN_LIFE = "the end of a child that lives as long as the waiting process"
    OWN_ROOM = "room in a queue from which only the waiting process itself takes"
    NO_CONSUMER = "one who takes something out of a full queue"
    RANK_ENDED = "a rank that ended without a trace"
    RANK_EXITS = "a rank whose script has ended, and whose process only threads keep alive that do something else"
    RANK_NEVER_CAME = "a rank that was never started, or has another's number"


class NoReleaser(msgspec.Struct, frozen=True, gc=False):
    """Nobody alive can help."""

    why: str
    blame: tuple[int, ...] = ()
    """Pids of the processes that should have acted."""
    reason: Absent = Absent.NO_OTHER_END


class External(msgspec.Struct, frozen=True, gc=False):
    """An external party: another machine, a person."""

    who: str
    of_job: bool = False
    """The party consists of ranks of the job, which could reveal what blocks them."""
    moves: bool = False
    """The party is known to make progress, so it may yet act."""
    reason: Absent | None = None
    """Why it has to be an external party, if one at all."""


Target = ThreadKey | Exited | NoReleaser | External


class Basis(Enum):
    """The source that identifies a wait's targets as the ones that must act."""

    ASSUMED = "assumed"
    """None: the targets are merely candidates that could act."""
    FRAMES = "frames"
    """The targets' own frames show what they are doing."""
    MEMORY = "memory"
    """Process memory: the owner field of a lock, the arguments of a call."""
    LEDGER = "ledger"
    """Per-process counts: semaphore acquires and releases, collectives begun in a process group."""
    KERNEL = "kernel"
    """The kernel names the target, or the only process that has the other end or the lock."""

    def when(self, holds: bool) -> Basis:  # noqa: FBT001  it is the whole question
        """This basis if it `holds`, that is, rules out any other target; else ASSUMED."""
        return self if holds else Basis.ASSUMED


class WaitEdge(msgspec.Struct, frozen=True, gc=False):
    """What a waiting node waits for."""

    targets: tuple[Target, ...]
    every: bool = False
    """All targets must act, not just any of them."""
    basis: Basis = Basis.ASSUMED
    """The source that identifies the targets as the ones that must act."""
    holder_known: bool = False
    """The targets hold the awaited lock, or permits of the awaited semaphore."""
    polled: bool = False
    """The waiter polls: that it runs is no progress, and it waits for as long as its targets stand still."""
    of_end: bool = False
    """The waiter waits for the targets to end."""
    of_data: bool = False
    """The waiter waits for data that one of the targets would send."""
    of_room: bool = False
    """The waiter waits for room that one of the targets would make by reading."""
    of_sign: bool = False
    """The waiter waits for a sign of one of the targets: an event that is set, a condition that is notified."""
    guessed: bool = False
    """Nothing shows that the targets are meant to help: they are merely all that run beside the waiter."""
    idle_s: float | None = None
    """Seconds (a lower bound) for which the possible helpers have been idle, whatever the waiter did meanwhile; `None` if
    that was not checked.
    """
    words: str = ""
    """`batch from dataloader worker 1`."""
    evidence: str = ""
    """What was read, and where, so that a person can check it."""

    @property
    def exact(self) -> bool:
        """Nobody but the targets could act."""
        return self.basis is not Basis.ASSUMED


class Node(msgspec.Struct, frozen=True, gc=False):
    """One thread of the graph."""

    key: ThreadKey
    status: Status
    edge: WaitEdge | None = None
    bystander: bool = False
    """A heartbeat, or a thread that accepts connections: it may be able to help, but nothing shows that it is meant to."""
    polls: bool = False
    """A leaf that looks again and again for what it does not show, and so may wait for another leaf."""
    asks: tuple[ThreadKey, ...] = ()
    """Of one that polls: who might bring what it looks for, if they could move."""


class Ending(Enum):
    """What a chain of waiters ends in."""

    LEAF = "leaf"
    """A thread that is blocked by itself."""
    GONE = "gone"
    """A process that ended."""
    NOBODY = "nobody"
    """An action that nobody alive can perform."""
    EXTERNAL = "outside"
    """An external party."""
    DESERTED = "deserted"
    """A thread that waits for others which all wait for work, or for it: they do not know that they owe it something."""
    CYCLE = "cycle"
    """Threads that wait for each other."""
    OPEN = "open"
    """No member of the set can move; nothing more is known."""


class Closed(msgspec.Struct, frozen=True, gc=False):
    """A goal that can never be reached, and why."""

    goal: ThreadKey
    members: tuple[ThreadKey, ...]
    """All closed nodes reached from the goal."""
    root_blockers: tuple[Target, ...]
    """The root blockers."""
    ending: Ending
    """What the chain ends in."""
    path: tuple[ThreadKey, ...]
    """From the goal to the first root, by the shortest way."""
    assumed: tuple[ThreadKey, ...]
    """The nodes on the path, and in a cycle, whose edges are not exact."""
    core: tuple[ThreadKey, ...] = ()
    """If the chain ends in threads that wait only for each other: those threads, for which all other members wait. Else
    all members.
    """

    @property
    def exact(self) -> bool:
        """Nobody but the named targets could help."""
        return not self.assumed
