"""Probes with their own tables that work beside the looks at processes: GPUs, shared memory, the shim's files."""

from __future__ import annotations

from typing import Protocol

from mpmon.model import Snapshot


class SideProbe(Protocol):
    """Called once a round; slow queries run elsewhere, so that neither call blocks."""

    def begin(self) -> None:
        """A round begins: start the slow queries now."""
        ...

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot of the round with its tables filled, as far as they are known."""
        ...

    def close(self) -> None:
        """Stop everything and release all resources."""
        ...
