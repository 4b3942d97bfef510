"""Hooks of torch: the three methods of `torch.UntypedStorage` by which CUDA memory goes from process to process.

Everything that shares CUDA memory calls them, even code that builds its own messages; messages stay unchanged. The line and
the queue come from the object that this thread is pickling or has received: `mpmon.shim.queues`.
"""

from __future__ import annotations

import os
from _thread import get_ident
from functools import wraps
from time import monotonic_ns

from . import layout
from .layout import AGAIN, SYNCED
from .patches import replace
from .queues import WANTS_SITES
from .records import HERE, NOTHING
from .sites import frame_of, site_of
from .transfers import Exports, Imports
from .whose import is_from_job, is_own
from .writer import WRITER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType
    from typing import Any

_TORCH = f"{os.sep}torch{os.sep}"


class Sides:
    """What this process has sent and received."""

    def __init__(self, storage_type: Any) -> None:
        self._storage_type = storage_type
        self.forget()

    def forget(self) -> None:
        """Start without transfers: at the beginning, and in a freshly forked child."""
        self.exports = Exports(layout.EXPORTS, self._storage_type)
        self.imports = Imports(layout.IMPORTS, self._storage_type)

    def look(self) -> None:
        """Check everything that was sent."""
        try:
            self.exports.check()
        except Exception as problem:
            if is_from_job(problem):
                raise

    def collected(self) -> None:
        """torch.cuda.ipc_collect() has just run."""
        self.exports.note_occasion()
        WRITER.words[layout.COLLECTED_AT] = monotonic_ns()
        self.look()


SIDES: list[Sides] = []


def hook_storage(module: ModuleType) -> None:
    """Install the hooks in `torch.storage`."""
    storage = module.UntypedStorage
    sides = Sides(storage)
    os.register_at_fork(after_in_child=sides.forget)
    SIDES.append(sides)
    WANTS_SITES.append(storage)
    replace(storage, "_share_cuda_", _share(storage._share_cuda_, sides))
    replace(storage, "_new_shared_cuda", staticmethod(_new_shared(storage._new_shared_cuda, sides)))
    replace(storage, "_release_ipc_counter_cuda", staticmethod(_release(storage._release_ipc_counter_cuda, sides)))


def hook_collect(module: ModuleType) -> None:
    """Install one hook in `torch.cuda`, which torch imports after `torch.storage`."""
    if SIDES:
        replace(module, "ipc_collect", _collect(module.ipc_collect, SIDES[-1]))


def _share(original: Callable[..., Any], sides: Sides) -> Callable[..., Any]:
    @wraps(original)
    def _share_cuda_(self: Any) -> Any:
        shared = original(self)
        try:
            # As THPStorage_shareCuda of torch/csrc/StorageSharing.cpp returns it; empty storages have no refcounter.
            device, _, size, _, refcounter, slot, _, has_event = shared
            if refcounter:
                here = HERE[get_ident()]
                queue = here.sends
                if queue is None or here.pickled is NOTHING:
                    inode, site = 0, site_of(_caller(frame_of(1)))
                else:
                    inode, site = queue.inode, queue.site_of(here.pickled) if queue.sites else queue.usual_site
                what = size << 16 | device << 8 | (0 if has_event else SYNCED)
                sides.exports.note(refcounter, slot, self, what, inode, site)
        except Exception as problem:
            if is_from_job(problem):
                raise
        return shared

    return _share_cuda_


def _new_shared(original: Callable[..., Any], sides: Sides) -> Callable[..., Any]:
    @wraps(original)
    def _new_shared_cuda(*args: Any) -> Any:
        storage = original(*args)
        try:
            queue = HERE[get_ident()].receives
            sides.imports.note(args[4], args[5], storage, 0, 0 if queue is None else queue.inode, 0)
        except Exception as problem:
            if is_from_job(problem):
                raise
        return storage

    return _new_shared_cuda


def _release(original: Callable[..., Any], sides: Sides) -> Callable[..., Any]:
    """Hooks what torch calls for a storage that this process already has: the new slot is released at once."""

    @wraps(original)
    def _release_ipc_counter_cuda(*args: Any) -> Any:
        result = original(*args)
        try:
            queue = HERE[get_ident()].receives
            sides.imports.note(args[0], args[1], None, AGAIN, 0 if queue is None else queue.inode, 0)
        except Exception as problem:
            if is_from_job(problem):
                raise
        return result

    return _release_ipc_counter_cuda


def _collect(original: Callable[[], Any], sides: Sides) -> Callable[[], Any]:
    @wraps(original)
    def ipc_collect() -> Any:
        sides.look()
        result = original()
        sides.collected()
        return result

    return ipc_collect


def _caller(frame: FrameType) -> FrameType:
    """The line outside of torch that shares a storage directly, without a queue."""
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _is_inside(file: str) -> bool:
    return is_own(file) or _TORCH in file
