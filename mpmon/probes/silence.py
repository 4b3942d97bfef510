"""Devices that were queried and have not answered, shared by the threads of one process, the helper."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

DEADLINE_S = 1.0
"""A device that has not answered after this many seconds is silent."""

_owing: dict[str, float] = {}
"""Devices, with the time.monotonic() at which they were queried."""


@contextmanager
def awaiting(device: str) -> Generator[None, None, None]:
    """In this block a query to the device is pending."""
    _owing.setdefault(device, time.monotonic())
    try:
        yield
    finally:
        _owing.pop(device, None)


def silent_devices() -> frozenset[str]:
    """Devices whose files must not be touched now."""
    if not _owing:
        return frozenset()
    now = time.monotonic()
    return frozenset(device for device, asked_at in list(_owing.items()) if now - asked_at >= DEADLINE_S)
