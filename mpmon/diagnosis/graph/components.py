"""Strongly connected components of the wait-for graph: threads that wait, directly or not, for each other (Tarjan,
1972).

A component that waits for nothing outside itself is the origin of a stuck set: only its members can unblock it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)


def components(nodes: Iterable[Node], targets: Callable[[Node], Sequence[Node]]) -> list[tuple[Node, ...]]:
    """All components: one that waits for another comes after it.  `targets` may lead to further nodes."""
    return _Search(targets).run(nodes)


class _Search(Generic[Node]):
    """One run of Tarjan's algorithm, without recursion: a chain of waiters may be longer than Python's stack."""

    def __init__(self, targets: Callable[[Node], Sequence[Node]]) -> None:
        self._targets = targets
        self._number: dict[Node, int] = {}
        self._lowest: dict[Node, int] = {}
        self._open: dict[Node, None] = {}
        self._found: list[tuple[Node, ...]] = []

    def run(self, nodes: Iterable[Node]) -> list[tuple[Node, ...]]:
        for node in nodes:
            if node not in self._number:
                self._walk(node)
        return self._found

    def _walk(self, start: Node) -> None:
        path = [self._enter(start)]
        while path:
            node, targets = path[-1]
            new = next((target for target in targets if self._is_new(node, target)), None)
            if new is not None:
                path.append(self._enter(new))
                continue
            path.pop()
            if path:
                self._lower(path[-1][0], self._lowest[node])
            if self._lowest[node] == self._number[node]:
                self._close(node)

    def _enter(self, node: Node) -> tuple[Node, Iterator[Node]]:
        self._number[node] = self._lowest[node] = len(self._number)
        self._open[node] = None
        return node, iter(self._targets(node))

    def _is_new(self, node: Node, target: Node) -> bool:
        if target in self._open:
            self._lower(node, self._number[target])
        return target not in self._number

    def _lower(self, node: Node, number: int) -> None:
        self._lowest[node] = min(self._lowest[node], number)

    def _close(self, root: Node) -> None:
        """Close the component of `root`: all nodes entered after it and still open."""
        members: list[Node] = []
        while not members or members[-1] != root:
            members.append(self._open.popitem()[0])
        self._found.append(tuple(reversed(members)))
