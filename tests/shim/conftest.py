from __future__ import annotations

from tests.ipc.conftest import own_shm

__all__ = ["own_shm"]
