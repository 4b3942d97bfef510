"""Which threads can still make progress, which are stuck, and who blocks them: the theory is in the package's docstring."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator

from mpmon.diagnosis.graph.components import components
from mpmon.diagnosis.graph.nodes import FEW, Closed, Ending, Exited, External, Node, NoReleaser, Status, Target
from mpmon.diagnosis.state.history import ThreadKey

MOST_SEEN = 256
"""At most this many threads are followed along edges that leave no choice."""


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
        found = self._closed(goal)
        return self._behind_polls(found, {goal}) if found else None

    def _behind_polls(self, closed: Closed, seen: set[ThreadKey]) -> Closed:
        """Whoever might bring what the root blocker polls for, and is stuck whatever that one does, blocks it."""
        polling = closed.root_blockers[0] if len(closed.root_blockers) == 1 else None
        asked = self.node(polling).asks if isinstance(polling, tuple) and closed.ending is Ending.LEAF else ()
        for target in asked:
            if target in seen or self.node(target).status is Status.IDLE:
                continue
            seen.add(target)
            behind = self._closed(target)
            if behind and polling not in behind.members:
                return _joined(closed, self._behind_polls(behind, seen))
        return closed

    def _closed(self, goal: ThreadKey) -> Closed | None:
        """As far as edges lead."""
        if self._is_helped(self.node(goal)):
            return None
        progressing = self.can_progress(self.reached(goal))
        if goal in progressing:
            return None
        members, paths = self._closed_from(goal, progressing)
        core, root_blockers, ending = self._ends(members, progressing)
        path = paths.get(_end(root_blockers, members, self), (goal,))
        argument = dict.fromkeys(
            (*path, *(root for root in root_blockers if ending is Ending.CYCLE and isinstance(root, tuple)))
        )
        assumed = tuple(key for key in argument if (edge := self.node(key).edge) and not edge.exact)
        return Closed(goal, tuple(members), tuple(root_blockers), ending, path, assumed, tuple(core))

    def _ends(
        self, members: list[ThreadKey], progressing: set[ThreadKey]
    ) -> tuple[list[ThreadKey], list[Target], Ending]:
        """The core that waits for nothing outside itself, the root blockers, and what they are.

        Bystanders are considered only if no root blocker is found without them.
        """
        holders = self._holders(members)
        acting = [key for key in members if not self.node(key).bystander or key in holders]
        if acting and len(acting) < len(members):
            bystanders = progressing | (set(members) - set(acting))
            core = self._core(acting, bystanders)
            root_blockers, ending = self._root_blockers(acting, core, bystanders)
            if root_blockers:
                return core, root_blockers, ending
            # One that stands beside, and waits itself, is no better end than those that wait for nobody else.
            core = [key for key in core if not any(self._stuck_targets(key, bystanders))] or core
            among = self._waiting(core)
        else:
            core, among = members, []
        core_of_all = self._core(members, progressing)
        root_blockers, ending = self._root_blockers(members, core_of_all, progressing)
        root_blockers = root_blockers or self._waiting(core_of_all)
        needed = {target for key in acting if (edge := self.node(key).edge) and edge.exact for target in edge.targets}
        if among and not any(self._acts(root) or root in needed for root in root_blockers):
            return core, among, ending
        return core_of_all, root_blockers, ending

    def _acts(self, target: Target) -> bool:
        """It is none of those that stand beside and wait themselves."""
        node = self.node(target) if isinstance(target, tuple) else None
        return node is None or not node.bystander or node.status is not Status.WAITS

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
    ) -> tuple[list[Target], Ending]:
        shared = _Shared()
        needs = [edge for key in members if (edge := self.node(key).edge) and shared.is_new(self.node(key))]
        ends = dict.fromkeys(target for edge in needs for target in edge.targets if not isinstance(target, tuple))
        gone = [end for end in ends if isinstance(end, Exited)]
        if found := [end for end in ends if isinstance(end, NoReleaser)]:
            return list[Target](found), Ending.NOBODY
        if found := [end for end in gone if end.certain]:
            return list[Target](found), Ending.GONE
        holders = self._holders(members)
        leaves: list[Target] = [
            key for key in members if self.node(key).status is Status.LEAF
            or (self.node(key).status is Status.IDLE and key in holders)
        ]  # fmt: skip
        if leaves:
            # Of the others it is only assumed that they could act; and who polls may wait for one that stands still.
            known = [leaf for leaf in leaves if leaf in holders]
            return known or [leaf for leaf in leaves if not self._polls(leaf)] or leaves, Ending.LEAF
        if cycle := self._cycle(core, progressing, exact=True):
            return list(cycle), Ending.CYCLE
        cycle = self._cycle(core, progressing, exact=False)
        if gone:
            owed = any(self._owes(end, cycle) for end in gone)
            return (list(cycle), Ending.CYCLE) if cycle and not owed else (list[Target](gone), Ending.GONE)
        if outside := [end for end in ends if isinstance(end, External)]:
            return list[Target](outside), Ending.EXTERNAL
        if asked := self._asked(members):
            # One of them that waits for another one moves when that one does.
            inside = [target for target in asked if target in core]
            if not cycle or not set(inside).issuperset(cycle):
                return inside or asked, Ending.OPEN
        elif deserted := [key for key in members if self._is_deserted(key, progressing)]:
            return list[Target](deserted), Ending.DESERTED
        return list(cycle), Ending.CYCLE if cycle else Ending.OPEN

    def _polls(self, target: Target) -> bool:
        return isinstance(target, tuple) and self.node(target).polls

    def _owes(self, end: Exited, cycle: list[ThreadKey]) -> bool:
        """Whether one that ended may have owed something to those who wait for each other: not if it ended by right, one of them
        waits for a sign that it could have given as well, and it is certain for whom the others wait.
        """
        edges = [edge for key in cycle if (edge := self.node(key).edge)]
        others = [edge for edge in edges if end not in edge.targets]
        signs = [edge for edge in edges if end in edge.targets]
        return (
            end.status != 0
            or not others
            or not all(edge.of_sign for edge in signs)
            or not all(edge.exact or edge.holder_known for edge in others)
        )

    def _waiting(self, core: list[ThreadKey]) -> list[Target]:
        """The fallback: the waiters whose helper is unknown, since a waiter with a known target, or a single one, moves when that
        does, and who waits for an end may be the one who is needed; all waiters if there is no such one.
        """
        waiting = [(key, edge) for key in core if (edge := self.node(key).edge)]
        vague = [(key, edge) for key, edge in waiting if not edge.exact and not edge.every]
        several = {key for key, _ in vague if not self._has_one_helper(key)}
        found = [key for key, edge in vague if key in several or edge.of_end] if several else []
        return [*(found or (key for key, _ in vague or waiting))]

    def _has_one_helper(self, key: ThreadKey) -> bool:
        """A single target might help it: the others need this one first. Of those who could give a sign none is more likely."""
        edge = self.node(key).edge
        if edge is None or len(edge.targets) > FEW:
            return False
        alone = len(edge.targets) == 1
        return alone or (not edge.of_sign and sum(not self._needs(target, key) for target in edge.targets) == 1)

    def _needs(self, target: Target, key: ThreadKey) -> bool:
        """A target waits, along edges that leave no choice, for this thread."""
        seen, line = {target}, [target]
        for one in line:
            edge = self.node(one).edge if isinstance(one, tuple) else None
            if edge and (edge.every or len(edge.targets) == 1) and len(seen) < MOST_SEEN:
                line += [other for other in edge.targets if other not in seen]
                seen.update(edge.targets)
        return key in seen

    def _asked(self, members: list[ThreadKey]) -> list[Target]:
        """Threads that run user code which a library called on behalf of another member."""
        needs = [edge for key in members if (edge := self.node(key).edge) and edge.polled]
        found = dict.fromkeys(target for edge in needs for target in edge.targets)
        return [target for target in found if not self._asks(target)]

    def deserters(self, key: ThreadKey) -> tuple[ThreadKey, ...]:
        """The targets of a thread, if all of them wait for work or, if it is only a guess that they could help, for something
        that this thread may give them, or that others can give only after it has moved; else none. A rank in a collective is
        no such one: it needs the thread to join it.
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
        if edge is None or edge.guessed or edge.every:
            return False
        return waiter.key in edge.targets or self._needs(target, waiter.key)

    def _is_deserted(self, key: ThreadKey, progressing: set[ThreadKey]) -> bool:
        left = self.deserters(key)
        return bool(left) and progressing.isdisjoint(left)

    def _asks(self, target: Target) -> bool:
        edge = self.node(target).edge if isinstance(target, tuple) else None
        return edge is not None and edge.polled

    def _holders(self, members: list[ThreadKey]) -> set[Target]:
        """The threads that hold a lock or permit another member waits for, that alone could make room for it, or that have to
        join it: if idle meanwhile, they keep it forever.
        """
        edges = (edge for key in members if (edge := self.node(key).edge))
        needs = [
            edge for edge in edges
            if edge.holder_known or (edge.of_room and edge.exact) or (edge.every and not edge.of_end)
        ]  # fmt: skip
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


def _joined(first: Closed, then: Closed) -> Closed:
    """The goal of the first waits for that of the other, though no edge leads there."""
    members = dict.fromkeys((*first.members, *then.members))
    return Closed(
        first.goal, tuple(members), then.root_blockers, then.ending, (*first.path, *then.path),
        (*first.assumed, first.path[-1], *then.assumed), then.core,
    )  # fmt: skip


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
