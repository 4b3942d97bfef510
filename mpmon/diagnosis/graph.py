"""The wait-for graph: who cannot go on until who has moved.

Theory of operation.

A node is a thread.  It is *live* (it gets somewhere, or will by itself), a *leaf* (it stands still and waits for nobody
in the job: asleep, spinning, stopped, in a file, in a debugger), *idle* (it would serve, but nobody asked), or it
*waits*.  A waiting node has a need: ANY of its targets can help (a queue has many producers), or ALL must (every child
has to end, every rank has to enter).  Targets are threads, the dead, nobody at all, or the world outside the job.

What can still move is the smallest set that holds the live nodes and every waiting node whose need it satisfies.  All
the rest is *closed*: no member can move before another member has.  That argument needs no time limit and no majority.

In the closed set that is reached from the one whose progress counts, those who must move first are, in this order:
nobody (a holder that no longer exists), the dead, the leaves, a cycle, or, if the reasons are only known as *any of
these*, the whole set.

Every edge says why in words a person can check, and whether the kernel or the interpreter said so (*exact*) or frames
were read to mean so (*inferred*).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum

import msgspec

from mpmon.diagnosis.components import components
from mpmon.diagnosis.history import ThreadKey


class Status(Enum):
    """What a node can do."""

    LIVE = "live"
    LEAF = "leaf"
    IDLE = "idle"
    WAITS = "waits"
    HIDDEN = "hidden"
    """It stands still, and in what may not be read: perhaps it can move, perhaps it never will."""


class Gone(msgspec.Struct, frozen=True, gc=False):
    """A process that ended; nobody can do its part."""

    pid: int
    how: str
    certain: bool = True
    """False where living processes could also help, so that the death may have nothing to do with it."""
    status: int | None = None
    """As wait(2) gives it; `None` where it is not known."""

    @property
    def was_killed(self) -> bool:
        """By a signal."""
        return self.status is not None and bool(self.status & 0x7F)


class Absent(Enum):
    """Why nobody alive can help; told by whoever finds it out, so that nobody has to guess it from what is waited for."""

    HOLDER_ENDED = "a lock between processes, or permits of a semaphore, whose holder ended"
    LOCKED_AT_FORK = "a lock that was copied locked: its holder is a thread of the parent"
    NATIVE_AT_FORK = "a barrier of native threads that exist in the parent only"
    LEFT_IN_PARENT = "a thread that would answer, and that a fork did not copy"
    THREAD_ENDED = "a thread of the process that would answer"
    OWN_LOCK = "a lock that only the waiting thread itself can have"
    NATIVE = "something in native code, and no thread of the process works"
    ITEM_LOST = "an item or result that no longer exists, while all who could make it wait for work"
    WORKER_REPLACED = "a result of a worker that died and that its pool has replaced"
    NO_WORKERS = "workers that do not exist"
    NO_OTHER_END = "the other end of a pipe, or another client of a server"
    OWN_END = "the other end of a pipe that only the waiting process itself has: neither data nor their end can come"
    OWN_ROOM = "room in a queue from which only the waiting process itself takes"
    NO_CONSUMER = "one who takes something out of a full queue"
    RANK_ENDED = "a rank that ended without a trace"
    RANK_EXITS = "a rank whose script has ended, and whose process only threads keep alive that do something else"
    RANK_NEVER_CAME = "a rank that was never started, or has another's number"


class Nobody(msgspec.Struct, frozen=True, gc=False):
    """Nobody alive can help."""

    why: str
    blame: tuple[int, ...] = ()
    """Pids whose part it was."""
    reason: Absent = Absent.NO_OTHER_END


class Outside(msgspec.Struct, frozen=True, gc=False):
    """Somebody who is not at hand: another machine, a person."""

    who: str
    of_job: bool = False
    """They are ranks of the job, so that they could tell what keeps them."""
    moves: bool = False
    """They are known to get on, so that they may yet do what is waited for."""


Target = ThreadKey | Gone | Nobody | Outside


class Need(msgspec.Struct, frozen=True, gc=False):
    """What a waiting node waits for."""

    targets: tuple[Target, ...]
    every: bool = False
    """All targets must act, not just any."""
    exact: bool = False
    """The kernel or the interpreter named the targets."""
    held: bool = False
    """The targets have what is waited for: a lock, or permits of a semaphore."""
    polled: bool = False
    """It asks again and again: that it runs says nothing, and it waits for as long as its targets stand."""
    words: str = ""
    """`batch from dataloader worker 1`."""
    evidence: str = ""


class Node(msgspec.Struct, frozen=True, gc=False):
    """One thread of the graph."""

    key: ThreadKey
    status: Status
    need: Need | None = None


class Closed(msgspec.Struct, frozen=True, gc=False):
    """A goal that can never be reached, and why."""

    goal: ThreadKey
    members: tuple[ThreadKey, ...]
    """All closed nodes that are reached from the goal."""
    roots: tuple[Target, ...]
    """Who must move first."""
    cycle: bool
    """The roots wait for each other."""
    path: tuple[ThreadKey, ...]
    """From the goal to the first root, by the shortest way."""
    exact: bool
    """Every edge of the path is exact."""
    core: tuple[ThreadKey, ...] = ()
    """Where it ends in threads that wait for each other: all of these, who wait for nobody else; the other members only wait
    for them.  Else all members.
    """


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
        """Those of whom nothing is known, where the goal can be reached only if they can move."""
        keys = list(self.reached(goal))
        hidden = tuple(key for key in keys if self.node(key).status is Status.HIDDEN)
        return hidden if hidden and goal not in self.able(keys, (Status.LIVE,)) else ()

    def able(
        self, keys: Iterable[ThreadKey], statuses: Collection[Status] = (Status.LIVE, Status.HIDDEN)
    ) -> set[ThreadKey]:
        """Of these, the ones that can still move; `statuses` are of those who can by themselves."""
        keys = list(keys)
        able = {key for key in keys if self.node(key).status in statuses}
        grown = True
        while grown:
            grown = False
            shared = _Shared()
            for key in keys:
                # What an equal set of targets could not do a moment ago, the next round may.
                if key not in able and shared.is_new(self.node(key)) and self._satisfied(self.node(key), able):
                    able.add(key)
                    shared.forget(self.node(key))
                    grown = True
        return able

    def closed(self, goal: ThreadKey) -> Closed | None:
        """Why the goal cannot be reached; `None` while it can."""
        if self._is_helped(self.node(goal)):
            return None
        able = self.able(self.reached(goal))
        if goal in able:
            return None
        members, paths = self._closed_from(goal, able)
        core = self._core(members, able)
        roots, cycle = self._roots(members, core, able)
        path = paths.get(_end(roots, members, self), (goal,))
        argument = dict.fromkeys((*path, *(root for root in roots if cycle and isinstance(root, tuple))))
        exact = all(need.exact for key in argument if (need := self.node(key).need))
        return Closed(goal, tuple(members), tuple(roots), cycle, path, exact, tuple(core))

    def _is_helped(self, node: Node) -> bool:
        """One who is enough moves already: of the others nobody need be thought about."""
        if node.status is not Status.WAITS or node.need is None or node.need.every:
            return False
        return any(self.node(target).status is Status.LIVE for target in _threads(node))

    def _satisfied(self, node: Node, able: set[ThreadKey]) -> bool:
        if node.status is not Status.WAITS or node.need is None or not node.need.targets:
            return False
        ready = (
            target in able if isinstance(target, tuple) else isinstance(target, Outside) and target.moves
            for target in node.need.targets
        )  # fmt: skip
        return all(ready) if node.need.every else any(ready)

    def _closed_from(
        self, goal: ThreadKey, able: set[ThreadKey]
    ) -> tuple[list[ThreadKey], dict[ThreadKey, tuple[ThreadKey, ...]]]:
        """All closed nodes reached from the goal, each with the most telling path to it.

        An exact edge costs one; an inferred one as much as it has targets, because it says that much less.
        """
        paths: dict[ThreadKey, tuple[ThreadKey, ...]] = {}
        # The serial number breaks ties, so that the answer does not depend on which pids the processes happen to have.
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
                # Whoever came to these targets first came the shortest way.
                continue
            targets = [target for target in _threads(node) if target not in able]
            step = 1 if node.need and node.need.exact else len(targets)
            for target in targets:
                heapq.heappush(line, (cost + step, next(serial), (*path, target)))
        return list(paths), paths

    def _core(self, members: list[ThreadKey], able: set[ThreadKey]) -> list[ThreadKey]:
        """Of the members who wait for each other and for nobody else those nearest to the goal; all where there are none.

        An idle one is nobody to wait for here: it does nothing before somebody asks it.
        """
        lists: dict[int, list[ThreadKey | int]] = {}

        def targets(one: ThreadKey | int) -> list[ThreadKey | int]:
            """Of a thread; a list that many threads may have in common stands between them and its members, as a number."""
            if isinstance(one, int):
                return lists[one]
            need = self.node(one).need
            if need is None or len(need.targets) <= FEW:
                return list(self._stuck_targets(one, able))
            if id(need.targets) not in lists:
                lists[id(need.targets)] = list(self._stuck_targets(one, able))
            return [id(need.targets)]

        sinks: dict[ThreadKey | int, set[ThreadKey | int]] = {}
        for row in map(set, components(members, targets)):
            inside = [target in row for one in row for target in targets(one)]
            if inside and all(inside):
                sinks.update(dict.fromkeys(row, row))
        first = next((sinks[key] for key in members if key in sinks), None)
        return [key for key in members if key in first] if first else members

    def _stuck_targets(self, key: ThreadKey, able: set[ThreadKey]) -> Iterator[ThreadKey]:
        """The threads it waits for that cannot move, but for those that wait for work."""
        for target in _threads(self.node(key)):
            if target not in able and self.node(target).status is not Status.IDLE:
                yield target

    def _roots(
        self, members: list[ThreadKey], core: list[ThreadKey], able: set[ThreadKey]
    ) -> tuple[list[Target], bool]:
        shared = _Shared()
        needs = [need for key in members if (need := self.node(key).need) and shared.is_new(self.node(key))]
        ends = [target for need in needs for target in need.targets if not isinstance(target, tuple)]
        if found := [end for end in ends if isinstance(end, Nobody)]:
            return list(dict.fromkeys(found)), False
        if found := [end for end in ends if isinstance(end, Gone) and end.certain]:
            return list(dict.fromkeys(found)), False
        holders = self._holders(members)
        leaves: list[Target] = [
            key for key in members if self.node(key).status is Status.LEAF
            or (self.node(key).status is Status.IDLE and key in holders)
        ]  # fmt: skip
        if leaves:
            return leaves, False
        if cycle := self._cycle(core, able, exact=True):
            return list(cycle), True
        if found := [end for end in ends if isinstance(end, Gone)]:
            return list(dict.fromkeys(found)), False
        if outside := [end for end in ends if isinstance(end, Outside)]:
            return list(dict.fromkeys(outside)), False
        if asked := self._asked(members):
            return asked, False
        if deserted := [key for key in members if self._is_deserted(self.node(key), able)]:
            return list[Target](deserted), False
        if cycle := self._cycle(core, able, exact=False):
            return list(cycle), True
        waiting = [(key, need) for key in core if (need := self.node(key).need)]
        # Whoever waits for one that is known moves when that one does; the others wait for somebody.
        vague: list[Target] = [key for key, need in waiting if not need.exact and not need.every]
        return vague or [key for key, _ in waiting], False

    def _asked(self, members: list[ThreadKey]) -> list[Target]:
        """Who runs code that a library called for another member: between the two there is nothing but the library."""
        needs = [need for key in members if (need := self.node(key).need) and need.polled]
        found = dict.fromkeys(target for need in needs for target in need.targets)
        return [target for target in found if not self._asks(target)]

    def _is_deserted(self, node: Node, able: set[ThreadKey]) -> bool:
        """It waits for those only who wait for work themselves, and nobody who could go on will give them any."""
        targets = list(_threads(node)) if node.status is Status.WAITS else []
        idle = all(target not in able and self.node(target).status is Status.IDLE for target in targets)
        return bool(targets) and idle and len(targets) == len(node.need.targets if node.need else ())

    def _asks(self, target: Target) -> bool:
        need = self.node(target).need if isinstance(target, tuple) else None
        return need is not None and need.polled

    def _holders(self, members: list[ThreadKey]) -> set[Target]:
        """Who has what another member waits for: one that idles meanwhile keeps it for ever."""
        needs = [need for key in members if (need := self.node(key).need) and need.held]
        return {target for need in needs for target in need.targets}

    def _cycle(self, members: list[ThreadKey], able: set[ThreadKey], *, exact: bool) -> list[ThreadKey]:
        """The first cycle along edges that have to be waited for: exact ones only, or any."""
        for start in members:
            path = [start]
            while nexts := self._single(path[-1], able, exact_only=exact):
                if nexts in path:
                    return path[path.index(nexts) :]
                path.append(nexts)
        return []

    def _single(self, key: ThreadKey, able: set[ThreadKey], *, exact_only: bool) -> ThreadKey | None:
        node = self.node(key)
        if node.need is None or (exact_only and not node.need.exact):
            return None
        targets = self._stuck_targets(key, able)
        first, second = next(targets, None), next(targets, None)
        return first if second is None or node.need.every else None


class _Shared:
    """Targets that many nodes have in common, looked at once: in a process with a thousand waiting threads each of them may
    be helped by any other, which are a million edges.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def is_new(self, node: Node) -> bool:
        """Whether this very tuple of targets was not seen before."""
        if node.need is None or len(node.need.targets) <= FEW:
            return True
        new = id(node.need.targets) not in self._seen
        self._seen.add(id(node.need.targets))
        return new

    def forget(self, node: Node) -> None:
        """Look at them again."""
        self._seen.discard(id(node.need.targets) if node.need else 0)


FEW = 32
"""Targets that are cheaper to look at than to remember."""


def _threads(node: Node) -> Iterator[ThreadKey]:
    for target in node.need.targets if node.need else ():
        if isinstance(target, tuple):
            yield target


def _end(roots: list[Target], members: list[ThreadKey], graph: Graph) -> ThreadKey:
    """The thread at which the path ends: the first root, or the one who waits for it."""
    first = roots[0] if roots else members[0]
    if isinstance(first, tuple):
        return first
    return next((key for key in members if (need := graph.node(key).need) and first in need.targets), members[0])
