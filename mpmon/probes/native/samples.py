"""Where a running thread is, by perf_event_open(2): its registers and the lowest piece of its stack, copied by the kernel.

A clock counts the time that the thread runs in user mode.  At each tick the kernel copies both into a ring that is mapped
here, which costs the thread 20 to 60 microseconds (measured).  After `MOST` ticks the kernel itself stops the clock
(PERF_EVENT_IOC_REFRESH), whatever happens to mpmon.  Nothing stops the thread, and nothing is written: the ring is mapped for
reading, and is larger than all copies together.

The clock is the kernel's own (PERF_COUNT_SW_CPU_CLOCK), since a virtual machine often has no hardware counters.
The system call has no function in the C library.  x86-64 only.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from mpmon.probes.native.dwarf import Registers
from mpmon.probes.native.machines import machine_of
from mpmon.probes.rights import why_unsampled

MOST = 3
"""Samples of one thread."""

STACK = 1 << 14
"""Bytes of the stack that are copied; the stack above seldom changes, and is read when the frames lead there."""

PERIOD_NS = 1_000_000
"""The thread's user-mode time between two samples."""

WAIT_S = 0.1
"""For all samples of all threads of a look."""

RING = 1 << 16
"""Bytes of the ring: a power of two that holds all samples of a thread."""

_CALL = 298
"""perf_event_open, asm/unistd_64.h."""
_ATTRIBUTES = struct.Struct("<IIQQQQQIIQQQQIi")
"""struct perf_event_attr of linux/perf_event.h up to `clockid` (PERF_ATTR_SIZE_VER3, Linux 3.7)."""
_SOFTWARE, _CPU_CLOCK = 1, 0
_TID, _REGISTERS, _STACK = 1 << 1, 1 << 12, 1 << 13
"""PERF_SAMPLE_TID, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER."""
_DISABLED, _NOT_KERNEL, _NOT_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 1 << 3
_REFRESH = 0x2402
"""PERF_EVENT_IOC_REFRESH: count, and stop after that many."""
_HEAD = 1024
"""Offset of `data_head`, the number of bytes written, in struct perf_event_mmap_page."""
_SAMPLE = 9
"""PERF_RECORD_SAMPLE."""
_ABI_64 = 2
"""PERF_SAMPLE_REGS_ABI_64."""
_BY_PERF = {0: 0, 1: 3, 2: 2, 3: 1, 4: 4, 5: 5, 6: 6, 7: 7, 8: 16} | {16 + n: 8 + n for n in range(8)}
"""DWARF register numbers by perf's (asm/perf_regs.h), in the order in which they are copied."""
_MASK = sum(1 << number for number in _BY_PERF)

OTHER_MACHINE = "mpmon samples running threads on x86-64 only"
NEVER_IN_USER_CODE = "it did not run in user mode while mpmon watched"


class Sample(NamedTuple):
    """One moment of a running thread. Registers have DWARF numbers."""

    registers: Registers
    stack: bytes
    """From the stack pointer up."""


class NotSampled(Exception):
    """Sampling is not possible: why, in words, and what to do about it."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why, remedy)
        self.why, self.remedy = why, remedy


def _call(attributes: bytes, tid: int) -> int:
    """perf_event_open(2) of a thread, on all processors.

    Raises:
        OSError: it was refused.
    """
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    descriptor = call(_CALL, ctypes.c_char_p(attributes), tid, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor


Call = Callable[[bytes, int], int]


def samples(pid: int, tids: Collection[int], wait_s: float = WAIT_S, call: Call = _call) -> dict[int, list[Sample]]:
    """Up to `MOST` samples of each of these threads of a process: fewer, or none, where a thread does not run long enough in
    user mode within `wait_s` seconds.

    Raises:
        NotSampled: the kernel refuses.
    """
    with ExitStack() as stack:
        clocks: list[_Clock] = []
        for tid in tids:
            try:
                clocks.append(stack.enter_context(_Clock(pid, tid, call)))
            except ProcessLookupError:
                continue
            except OSError as problem:
                raise NotSampled(*why_unsampled(problem)) from None
        _wait(clocks, time.monotonic() + wait_s)
        return {clock.tid: list(clock.samples()) for clock in clocks}


def check_sampling(call: Call = _call) -> None:
    """Whether this process may sample itself, the least privilege needed.

    Raises:
        NotSampled: it may not.
    """
    machine = machine_of()
    if machine is None or not machine.is_sampled:
        raise NotSampled(OTHER_MACHINE)
    try:
        with _Clock(os.getpid(), threading.get_native_id(), call):
            pass
    except OSError as problem:
        raise NotSampled(*why_unsampled(problem)) from None


def _wait(clocks: Collection[_Clock], until: float) -> None:
    """Until each has all its samples, or the time is up."""
    poll = select.poll()
    left = {clock.descriptor: clock for clock in clocks}
    for descriptor in left:
        poll.register(descriptor, select.POLLIN)
    while left and (seconds := until - time.monotonic()) > 0:
        for descriptor, event in poll.poll(1000 * seconds):
            # An error, or the end of the thread, would be reported again at each call.
            if event & ~select.POLLIN or left[descriptor].is_full:
                poll.unregister(descriptor)
                del left[descriptor]


class _Clock:
    """Counts the time of one thread, for the length of a `with` block."""

    def __init__(self, pid: int, tid: int, call: Call) -> None:
        """
        Raises:
            OSError: it was refused.
        """
        self._pid, self.tid = pid, tid
        attributes = _ATTRIBUTES.pack(
            _SOFTWARE, _ATTRIBUTES.size, _CPU_CLOCK, PERIOD_NS, _TID | _REGISTERS | _STACK, 0,
            _DISABLED | _NOT_KERNEL | _NOT_HYPERVISOR, MOST, 0, 0, 0, 0, _MASK, STACK, 0,
        )  # fmt: skip
        self.descriptor = call(attributes, tid)
        try:
            self._ring = mmap.mmap(self.descriptor, mmap.PAGESIZE + RING, mmap.MAP_SHARED, mmap.PROT_READ)
        except OSError:
            os.close(self.descriptor)
            raise

    def __enter__(self) -> _Clock:
        try:
            fcntl.ioctl(self.descriptor, _REFRESH, MOST)
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ring.close()
        os.close(self.descriptor)

    @property
    def is_full(self) -> bool:
        """All samples are there."""
        return sum(1 for _ in self._records()) >= MOST

    def samples(self) -> Iterator[Sample]:
        """What was copied."""
        for record in self._records():
            if (found := self._sample(record)) is not None:
                yield found

    def _records(self) -> Iterator[bytes]:
        """The sample records; the kernel also writes other records into the ring (that it throttled the clock)."""
        (head,) = struct.unpack_from("<Q", self._ring, _HEAD)
        at = 0
        while at + 8 <= head <= RING:
            kind, _, size = struct.unpack_from("<IHH", self._ring, mmap.PAGESIZE + at)
            if size < 8 or at + size > head:
                return
            if kind == _SAMPLE:
                yield self._ring[mmap.PAGESIZE + at + 8 : mmap.PAGESIZE + at + size]
            at += size

    def _sample(self, record: bytes) -> Sample | None:
        """`None` for an unusable record: of a 32-bit process, or of another thread."""
        pid, tid, abi = struct.unpack_from("<IIQ", record)
        if abi != _ABI_64 or (pid, tid) != (self._pid, self.tid):
            return None
        registers = dict(zip(_BY_PERF.values(), struct.unpack_from(f"<{len(_BY_PERF)}Q", record, 16), strict=True))
        at = 16 + 8 * len(_BY_PERF)
        (size,) = struct.unpack_from("<Q", record, at)
        at += 8
        # The number of bytes actually copied follows the space for the copy.
        used = struct.unpack_from("<Q", record, at + size)[0] if size else 0
        return Sample(registers, record[at : at + min(size, used)])
