"""Probes that have tables of their own and work beside the look at processes: GPUs, shared memory, the shim's files."""

from __future__ import annotations

from typing import Protocol

from mpmon.model import Snapshot


class SideProbe(Protocol):
    """Asked once a round; whatever it asks of slow things is asked elsewhere, so that neither call blocks."""

    def begin(self) -> None:
        """A round begins: ask now what takes a while to answer."""
        ...

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot of the round with its tables filled, as far as they are known."""
        ...

    def close(self) -> None:
        """End what runs and give everything back."""
        ...
