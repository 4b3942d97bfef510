from __future__ import annotations

from tests.ipc.conftest import own_shm
from tests.probes.conftest import openat2

__all__ = ["openat2", "own_shm"]
