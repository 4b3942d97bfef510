"""Which devices have been asked and owe an answer: what the threads of one process, the helper, tell each other."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

DEADLINE_S = 1.0
"""Who has not answered after so long is silent."""

_owing: dict[str, float] = {}
"""Devices with the moment, of time.monotonic(), at which they were asked."""


@contextmanager
def awaiting(device: str) -> Generator[None, None, None]:
    """In this block the device is asked something."""
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
