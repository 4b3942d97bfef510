"""Agents on this machine, one a process tree: trees that nobody joins otherwise, and the tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mpmon import start
from mpmon.nodes.transports import Carrier, Trouble, common_trouble


class Local:
    """Agents for roots of jobs here, by the names they are to have."""

    at_once = 64

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._roots = dict(roots)
        self.title = f"{len(roots)} trees here"

    def carriers(self) -> list[Carrier]:
        """One a tree."""
        return self.added(())

    def added(self, known: Collection[str]) -> list[Carrier]:
        """One for each other tree."""
        return [
            Carrier(tuple(start.command("mpmon", "agent", "--stdio", str(pid))), (name,))
            for name, pid in self._roots.items() if name not in known
        ]  # fmt: skip

    def trouble(self, node: str, said: str) -> Trouble | None:
        """Nothing of its own."""
        return common_trouble(node, said)

    def commands(self, node: str) -> tuple[str, ...]:
        """None: they are here."""
        del node
        return ()
