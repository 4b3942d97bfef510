"""The wait-for graph: which threads can still make progress, which are stuck, and who blocks them.

Theory of operation.

A node is a thread.  It is *live* (it makes progress, or will by itself), a *leaf* (it stands still and waits for nobody
in the job: asleep, spinning, stopped, in file I/O, in a debugger), *idle* (a server thread without a request), or it
*waits*.  A waiting node has a wait edge with one or more targets: ANY of them can end the wait (a queue has many producers),
or ALL must act (every child has to end, every rank has to enter).  A target is a thread, an exited process, nobody at all,
or a party external to the job.

The nodes that can progress are the smallest set that holds the live nodes and every waiting node whose edge it satisfies.
The remaining nodes form the *closed* set; they are stuck, since no member can move before another member has.  The argument
needs no time limit and no majority vote.

Of the closed set reached from the goal (the thread whose progress counts), the root blockers are the first of: nobody (a
lock holder that no longer exists); processes that have certainly ended; leaves, and idle holders of what a member needs; a
cycle of exact edges; processes that may have ended; external parties; tasks that a library runs; members that only wait for
idle threads; a cycle of assumed edges; and, if edges say only that *any* target could help, the waiters whose helper is unknown.

Every edge has a *basis*, the source that names its targets (the kernel, a ledger, memory, frames), and its evidence in words
that a person can check.  An edge whose targets are merely the candidates that could help is *assumed*; any other is *exact*.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum

import msgspec

from mpmon.diagnosis.components import components
from mpmon.diagnosis.state.history import ThreadKey


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
    PERMIT_LOST = "a permit of a semaphore of the process that was taken and not given back"
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


class Closed(msgspec.Struct, frozen=True, gc=False):
    """A goal that can never be reached, and why."""

    goal: ThreadKey
    members: tuple[ThreadKey, ...]
    """All closed nodes reached from the goal."""
    root_blockers: tuple[Target, ...]
    """The root blockers."""
    cycle: bool
    """The root blockers wait for each other."""
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


class Graph:
    """Nodes by thread, made on demand by `look_up`."""

    def __init__(self, look_up: Callable[[ThreadKey], Node]) -> None:
        self._look_up = look_up
        self._nodes: dict[ThreadKey, Node] = {}

    def node(self, key: ThreadKey) -> Node:
        """The node of a thread."""
        if key not in self._nodes:
            self._nodes[key] = self._look_up(key)
        return self._nodes[key]

    def reached(self, goal: ThreadKey) -> Iterator[ThreadKey]:
        """Every thread the goal depends on, itself first, nearest first."""
        order = [goal]
        seen = {goal}
        shared = _Shared()
        for key in order:
            yield key
            for target in _threads(self.node(key)) if shared.is_new(self.node(key)) else ():
                if target not in seen:
                    seen.add(target)
                    order.append(target)

    def rests_on(self, goal: ThreadKey) -> tuple[ThreadKey, ...]:
        """The HIDDEN threads without whose progress the goal cannot be reached."""
        keys = list(self.reached(goal))
        hidden = tuple(key for key in keys if self.node(key).status is Status.HIDDEN)
        return hidden if hidden and goal not in self.can_progress(keys, (Status.LIVE,)) else ()

    def can_progress(
        self, keys: Iterable[ThreadKey], statuses: Collection[Status] = (Status.LIVE, Status.HIDDEN)
    ) -> set[ThreadKey]:
        """The subset of `keys` that can still progress; nodes with one of `statuses` progress by themselves."""
        keys = list(keys)
        progressing = {key for key in keys if self.node(key).status in statuses}
        grown = True
        while grown:
            grown = False
            shared = _Shared()
            for key in keys:
                # A shared target tuple that does not satisfy the edge now may do so in the next round.
                if (
                    key not in progressing
                    and shared.is_new(self.node(key))
                    and self._satisfied(self.node(key), progressing)
                ):
                    progressing.add(key)
                    shared.forget(self.node(key))
                    grown = True
        return progressing

    def closed(self, goal: ThreadKey) -> Closed | None:
        """Why the goal cannot be reached; `None` while it can."""
        if self._is_helped(self.node(goal)):
            return None
        progressing = self.can_progress(self.reached(goal))
        if goal in progressing:
            return None
        members, paths = self._closed_from(goal, progressing)
        core, root_blockers, cycle = self._ends(members, progressing)
        path = paths.get(_end(root_blockers, members, self), (goal,))
        argument = dict.fromkeys((*path, *(root for root in root_blockers if cycle and isinstance(root, tuple))))
        assumed = tuple(key for key in argument if (edge := self.node(key).edge) and not edge.exact)
        return Closed(goal, tuple(members), tuple(root_blockers), cycle, path, assumed, tuple(core))

    def _ends(
        self, members: list[ThreadKey], progressing: set[ThreadKey]
    ) -> tuple[list[ThreadKey], list[Target], bool]:
        """The core that waits for nothing outside itself, the root blockers, and whether the root blockers form a cycle.

        Bystanders are considered only if no root blocker is found without them.
        """
        acting = [key for key in members if not self.node(key).bystander]
        if acting and len(acting) < len(members):
            bystanders = progressing | (set(members) - set(acting))
            core = self._core(acting, bystanders)
            root_blockers, cycle = self._root_blockers(acting, core, bystanders)
            if root_blockers:
                return core, root_blockers, cycle
        core = self._core(members, progressing)
        root_blockers, cycle = self._root_blockers(members, core, progressing)
        return core, root_blockers or self._waiting(core), cycle

    def _is_helped(self, node: Node) -> bool:
        """Shortcut: any target suffices and one is live, so the other targets need not be visited."""
        if node.status is not Status.WAITS or node.edge is None or node.edge.every:
            return False
        return any(self.node(target).status is Status.LIVE for target in _threads(node))

    def _satisfied(self, node: Node, progressing: set[ThreadKey]) -> bool:
        if node.status is not Status.WAITS or node.edge is None or not node.edge.targets:
            return False
        ready = (
            target in progressing if isinstance(target, tuple) else isinstance(target, External) and target.moves
            for target in node.edge.targets
        )  # fmt: skip
        return all(ready) if node.edge.every else any(ready)

    def _closed_from(
        self, goal: ThreadKey, progressing: set[ThreadKey]
    ) -> tuple[list[ThreadKey], dict[ThreadKey, tuple[ThreadKey, ...]]]:
        """All closed nodes reached from the goal, each with the cheapest, most informative path to it.

        An exact edge costs one; an assumed edge costs its number of targets, because it says that much less.
        """
        paths: dict[ThreadKey, tuple[ThreadKey, ...]] = {}
        # The serial number breaks ties, so the answer does not depend on pids.
        serial = itertools.count()
        line: list[tuple[int, int, tuple[ThreadKey, ...]]] = [(0, next(serial), (goal,))]
        shared = _Shared()
        while line:
            cost, _, path = heapq.heappop(line)
            if path[-1] in paths:
                continue
            paths[path[-1]] = path
            node = self.node(path[-1])
            if not shared.is_new(node):
                # The first node to reach these targets took the shortest path.
                continue
            targets = [target for target in _threads(node) if target not in progressing]
            step = 1 if node.edge and node.edge.exact else len(targets)
            for target in targets:
                heapq.heappush(line, (cost + step, next(serial), (*path, target)))
        return list(paths), paths

    def _core(self, members: list[ThreadKey], progressing: set[ThreadKey]) -> list[ThreadKey]:
        """The group of members nearest to the goal that wait for each other and for nothing else; all members if there is
        no such group.

        Idle nodes are not targets here: they do nothing until they get a request.
        """
        lists: dict[int, list[ThreadKey | int]] = {}

        def targets(one: ThreadKey | int) -> list[ThreadKey | int]:
            """The targets of a thread. A long list that many threads may share becomes an intermediate node of its own,
            named by its `id`.
            """
            if isinstance(one, int):
                return lists[one]
            edge = self.node(one).edge
            if edge is None or len(edge.targets) <= FEW:
                return list(self._stuck_targets(one, progressing))
            if id(edge.targets) not in lists:
                lists[id(edge.targets)] = list(self._stuck_targets(one, progressing))
            return [id(edge.targets)]

        sinks: dict[ThreadKey | int, set[ThreadKey | int]] = {}
        for row in map(set, components(members, targets)):
            inside = [target in row for one in row for target in targets(one)]
            if inside and all(inside):
                sinks.update(dict.fromkeys(row, row))
        first = next((sinks[key] for key in members if key in sinks), None)
        return [key for key in members if key in first] if first else members

    def _stuck_targets(self, key: ThreadKey, progressing: set[ThreadKey]) -> Iterator[ThreadKey]:
        """The threads it waits for that cannot progress, except those that wait for work."""
        for target in _threads(self.node(key)):
            if target not in progressing and self.node(target).status is not Status.IDLE:
                yield target

    def _root_blockers(
        self, members: list[ThreadKey], core: list[ThreadKey], progressing: set[ThreadKey]
    ) -> tuple[list[Target], bool]:
        shared = _Shared()
        needs = [edge for key in members if (edge := self.node(key).edge) and shared.is_new(self.node(key))]
        ends = [target for edge in needs for target in edge.targets if not isinstance(target, tuple)]
        if found := [end for end in ends if isinstance(end, NoReleaser)]:
            return list(dict.fromkeys(found)), False
        if found := [end for end in ends if isinstance(end, Exited) and end.certain]:
            return list(dict.fromkeys(found)), False
        holders = self._holders(members)
        leaves: list[Target] = [
            key for key in members if self.node(key).status is Status.LEAF
            or (self.node(key).status is Status.IDLE and key in holders)
        ]  # fmt: skip
        if leaves:
            return leaves, False
        if cycle := self._cycle(core, progressing, exact=True):
            return list(cycle), True
        if found := [end for end in ends if isinstance(end, Exited)]:
            return list(dict.fromkeys(found)), False
        if outside := [end for end in ends if isinstance(end, External)]:
            return list(dict.fromkeys(outside)), False
        if asked := self._asked(members):
            return asked, False
        if deserted := [key for key in members if self._is_deserted(key, progressing)]:
            return list[Target](deserted), False
        if cycle := self._cycle(core, progressing, exact=False):
            return list(cycle), True
        return [], False

    def _waiting(self, core: list[ThreadKey]) -> list[Target]:
        """The fallback: the waiters whose helper is unknown, since a waiter with a known target moves when that target
        does; all waiters if there is no such one.
        """
        waiting = [(key, edge) for key in core if (edge := self.node(key).edge)]
        vague: list[Target] = [key for key, edge in waiting if not edge.exact and not edge.every]
        return vague or [key for key, _ in waiting]

    def _asked(self, members: list[ThreadKey]) -> list[Target]:
        """Threads that run user code which a library called on behalf of another member."""
        needs = [edge for key in members if (edge := self.node(key).edge) and edge.polled]
        found = dict.fromkeys(target for edge in needs for target in edge.targets)
        return [target for target in found if not self._asks(target)]

    def deserters(self, key: ThreadKey) -> tuple[ThreadKey, ...]:
        """The targets of a thread, if all of them wait for work or, if it is only a guess that they could help, for something
        that this thread may give them; else none. A rank in a collective is no such one: it needs the thread to join it.
        """
        node = self.node(key)
        targets = node.edge.targets if node.edge and node.status is Status.WAITS else ()
        threads = tuple(target for target in targets if isinstance(target, tuple))
        return threads if len(threads) == len(targets) and all(self._deserts(one, node) for one in threads) else ()

    def _deserts(self, target: ThreadKey, waiter: Node) -> bool:
        node = self.node(target)
        if node.status is Status.IDLE or waiter.edge is None or not waiter.edge.guessed:
            return node.status is Status.IDLE
        edge = node.edge
        return edge is not None and not (edge.guessed or edge.every) and waiter.key in edge.targets

    def _is_deserted(self, key: ThreadKey, progressing: set[ThreadKey]) -> bool:
        left = self.deserters(key)
        return bool(left) and progressing.isdisjoint(left)

    def _asks(self, target: Target) -> bool:
        edge = self.node(target).edge if isinstance(target, tuple) else None
        return edge is not None and edge.polled

    def _holders(self, members: list[ThreadKey]) -> set[Target]:
        """The threads that hold a lock or permit another member waits for: if idle meanwhile, they hold it forever."""
        needs = [edge for key in members if (edge := self.node(key).edge) and edge.holder_known]
        return {target for edge in needs for target in edge.targets}

    def _cycle(self, members: list[ThreadKey], progressing: set[ThreadKey], *, exact: bool) -> list[ThreadKey]:
        """The first cycle along edges with a single necessary target: exact edges only, or any edges."""
        for start in members:
            path = [start]
            while nexts := self._single(path[-1], progressing, exact_only=exact):
                if nexts in path:
                    return path[path.index(nexts) :]
                path.append(nexts)
        return []

    def _single(self, key: ThreadKey, progressing: set[ThreadKey], *, exact_only: bool) -> ThreadKey | None:
        node = self.node(key)
        if node.edge is None or (exact_only and not node.edge.exact):
            return None
        targets = list(itertools.islice(self._stuck_targets(key, progressing), FEW))
        if not node.edge.every and not exact_only and len(targets) < FEW:
            # Who waits for this one to end gives it no sign, but is to make room for it.
            among = None if node.edge.of_data else {*targets, key} if node.edge.of_sign else set(targets)
            before = [target for target in targets if not self._comes_after(target, among, progressing)]
            targets = self._through_whom(before)
        return targets[0] if len(targets) == 1 or (targets and node.edge.every) else None

    def _comes_after(self, target: ThreadKey, others: set[ThreadKey] | None, progressing: set[ThreadKey]) -> bool:
        """The target waits for the end of a stuck thread, one of `others` if given, so it sends nothing before that one has
        moved. One that waits for an end instead of making room is another matter: it is what the writer needs.
        """
        edge = self.node(target).edge
        ends = edge.targets[0] if edge and edge.of_end and len(edge.targets) == 1 else None
        return isinstance(ends, tuple) and (ends not in progressing if others is None else ends in others)

    def _through_whom(self, targets: list[ThreadKey]) -> list[ThreadKey]:
        """Of threads of one process, the one through which all help has to come, since the others wait only for each other and
        for that one: a library's thread that receives, beside those that it wakes. All targets if there is no such one.
        """
        if len({pid for pid, _ in targets}) != 1:
            return targets
        inside = set(targets)
        edges = ((target, self.node(target).edge) for target in targets)
        gates = [target for target, edge in edges if edge is None or not inside.issuperset(edge.targets)]
        return gates if len(gates) == 1 else targets


class _Shared:
    """Visits a target tuple that many nodes share only once: a process with a thousand waiting threads, any of which may
    help any other, has a million edges.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def is_new(self, node: Node) -> bool:
        """Whether this tuple of targets, compared by identity, is new."""
        if node.edge is None or len(node.edge.targets) <= FEW:
            return True
        new = id(node.edge.targets) not in self._seen
        self._seen.add(id(node.edge.targets))
        return new

    def forget(self, node: Node) -> None:
        """Visit its targets again."""
        self._seen.discard(id(node.edge.targets) if node.edge else 0)


FEW = 32
"""Up to this many targets are cheaper to visit than to remember."""


def _threads(node: Node) -> Iterator[ThreadKey]:
    for target in node.edge.targets if node.edge else ():
        if isinstance(target, tuple):
            yield target


def _end(root_blockers: list[Target], members: list[ThreadKey], graph: Graph) -> ThreadKey:
    """The thread at which the path ends: the first root, or the thread that waits for it."""
    first = root_blockers[0] if root_blockers else members[0]
    if isinstance(first, tuple):
        return first
    return next((key for key in members if (edge := graph.node(key).edge) and first in edge.targets), members[0])
