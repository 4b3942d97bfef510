"""A stand-in for the three methods of torch's storages that share CUDA memory, for machines without a GPU.

Real: the queues and their pickling; torch's `reduce_tensor`, `rebuild_cuda_tensor` and cache of shared storages; the
refcounter file, made and opened again by torch's own at::RefcountedMapAllocator: 64 bytes and 10000 counts of 8 bytes.

Written here after torch/csrc/CudaIPCTypes.cpp: a slot for each sending, set to 1; the consumer's release takes 1 from it;
the limbo, which is freed when another shared block is freed or `collect` is called; at most 1000 events; a new file after
10000 sendings, and after a `collect` that leaves nothing in limbo where no sending of the present file is left.

What differs from CUDA, so that a test must not conclude it:

- memory is shared memory, so there is no segment of which one tensor keeps the whole, and nothing on a device;
- no stream is synchronized and no event is recorded, so a release takes no time;
- torch's shared memory manager knows the refcounter and unlinks it after a `kill -9` of the producer; CUDA's has no manager;
- no static destructor runs at the end of a producer;
- the handle of the refcounter holds the manager's address too, because opening it here needs that;
- what was received is a tensor on the CPU, so one that may not be sent on has to say so itself (`Tensor.received`);
- an event that a receiver opens and never closes is so much memory as `EVENT` says; CUDA's takes what it takes.

Tests that use it have "standin" in their names.  `install` comes before the shim's, whose hooks call what they find.
"""

from __future__ import annotations

import sys
import threading
import weakref
from multiprocessing import reduction

import torch
from torch.multiprocessing import reductions

Storage = torch.UntypedStorage
SLOTS = 10000
"""CUDA_IPC_REF_COUNTER_FILE_SIZE."""
EVENTS = 1000
"""CUDA_IPC_MAXIMUM_EVENTS_TO_USE."""
MEMORY_NAME, MANAGER_NAME = 40, 64
"""Lengths that the names of the memory and of its manager are padded to, in the place of cudaIpcMemHandle."""
EVENT = bytearray(1)
"""What a receiver keeps a copy of for each sending."""
OPENED = []


class DeviceStorage(Storage):
    """A storage that says it is on a GPU."""

    device = torch.device("cuda", 0)


class Tensor:
    """What `reduce_tensor` asks of a CUDA tensor, and no more."""

    requires_grad = is_nested = False
    is_leaf = True
    layout = torch.strided
    _backward_hooks = None

    def __init__(self, *size: int, dtype=torch.float32):
        like = torch.zeros(*size, dtype=dtype)
        self.dtype = dtype
        self._size, self._stride = like.size(), like.stride()
        storage = DeviceStorage(like.untyped_storage().nbytes())
        self._storage = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)

    @classmethod
    def received(cls, *size: int):
        """One that came from another process."""
        tensor = cls(*size)
        tensor._storage._untyped_storage.received = True
        return tensor

    def _typed_storage(self):
        return self._storage

    def has_names(self):
        return False

    def storage_offset(self):
        return 0

    def size(self):
        return self._size

    def stride(self):
        return self._stride


class Refcounter:
    """One file of counts, as the producer has it."""

    def __init__(self):
        self._storage = Storage._new_using_filename_cpu(SLOTS * 8)
        self.manager, self.name, _ = self._storage._share_filename_cpu_()
        self.counts = counts_of(self._storage)
        self.used = self.in_use = 0


class Sending:
    """CudaIPCSentData: one slot, and the memory it keeps while that is not 0."""

    def __init__(self, refcounter, slot, memory):
        self.refcounter, self.slot, self.memory = refcounter, slot, memory

    @property
    def held(self):
        return self.refcounter.counts[self.slot] != 0


class Producer:
    """CudaIPCGlobalEntities: the present refcounter, and the limbo."""

    def __init__(self):
        self.refcounter = None
        self.limbo = []
        self.sent = 0
        self.lock = threading.RLock()

    def send(self, memory):
        with self.lock:
            refcounter = self.refcounter or Refcounter()
            slot = refcounter.used
            refcounter.counts[slot] = 1
            refcounter.used += 1
            refcounter.in_use += 1
            self.sent += 1
            self.refcounter = refcounter if refcounter.used < SLOTS else None
            return Sending(refcounter, slot, memory)

    def free(self, sendings):
        """The last reference in the producer is gone."""
        with self.lock:
            self.limbo += sendings
            self.free_released()

    def free_released(self):
        """CudaIPCSentDataLimbo::collect."""
        for sending in self.limbo:
            sending.refcounter.in_use -= not sending.held
        self.limbo = [sending for sending in self.limbo if sending.held]

    def collect(self):
        """CudaIPCCollect: a file of which nothing is in use goes, and with it its name."""
        with self.lock:
            self.free_released()
            if not self.limbo and self.refcounter and not self.refcounter.in_use:
                self.refcounter = None


PRODUCER = Producer()


def counts_of(storage):
    return torch.empty(0, dtype=torch.int64).set_(storage, 0, (SLOTS,), (1,))


def share_cuda(storage):
    """THPStorage_shareCuda, which holds the GIL: the feeders of two queues do not mix."""
    if getattr(storage, "received", False):
        raise RuntimeError(
            "Attempted to send CUDA tensor received from another process; this is not currently supported."
        )
    with PRODUCER.lock:
        if not hasattr(storage, "_sendings"):
            storage._sendings = []
            weakref.finalize(storage, PRODUCER.free, storage._sendings)
            storage._memory = Storage(storage.nbytes())
            manager, name, _ = storage._memory._share_filename_cpu_()
            storage._handle = b"\2c" + manager.ljust(MANAGER_NAME, b"\0") + name.ljust(MEMORY_NAME, b"\0")
        sending = PRODUCER.send(storage._memory)
        storage._sendings.append(sending)
        has_event = PRODUCER.sent <= EVENTS
    refcounter = sending.refcounter.manager + b"|" + sending.refcounter.name
    return 0, storage._handle, storage.nbytes(), 0, refcounter, sending.slot, b"\0" * 64, has_event


def new_shared_cuda(_device, handle, size, _offset, refcounter, slot, _event, _has_event):
    """THPStorage_newSharedCuda."""
    names = handle[2:]
    manager, name = (part.rstrip(b"\0") for part in (names[:MANAGER_NAME], names[MANAGER_NAME:]))
    OPENED.append(EVENT[:])
    storage = Storage._new_shared_filename_cpu(manager, name, size)
    weakref.finalize(storage, release, refcounter, slot)
    return storage


def release(refcounter, slot):
    """ReleaseIPCCounter: the slot one lower; a producer that is gone is no failure."""
    manager, name = refcounter.split(b"|")
    try:
        storage = Storage._new_shared_filename_cpu(manager, name, SLOTS * 8)
    except RuntimeError:
        return
    counts_of(storage)[slot] -= 1


def ipc_collect():
    PRODUCER.collect()


def install():
    """Put it in the place of torch's own, below the hooks of a shim that is on already."""
    shims = [name for name in ("mpmon.shim", "mpmon_shim") if f"{name}.patches" in sys.modules]
    for name in shims:
        patches = sys.modules[f"{name}.patches"]
        patches.take_all_out()
        patches.PATCHES.clear()
    _replace()
    for name in shims:
        boot = sys.modules[f"{name}.boot"]
        for hooked in filter(sys.modules.__contains__, boot.HOOKS):
            boot._hook(hooked, sys.modules[hooked])


def _replace():
    Storage._share_cuda_ = share_cuda
    Storage._new_shared_cuda = staticmethod(new_shared_cuda)
    Storage._release_ipc_counter_cuda = staticmethod(release)
    torch.cuda._lazy_init = lambda: None
    torch.cuda.ipc_collect = ipc_collect
    reduction.register(Tensor, reductions.reduce_tensor)
