"""torch's DataLoader where torch imports, else a multiprocessing loader of the same shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpmon.demo.loader_without_torch import DataLoader
else:
    try:
        from torch.utils.data import DataLoader
    except (ImportError, OSError):  # OSError: torch is there, one of its shared libraries is not
        from mpmon.demo.loader_without_torch import DataLoader

__all__ = ["DataLoader"]
