"""One system call with its arguments, as proc_pid_syscall(5) gives them: what it names, and until when it waits."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mpmon.probes.fdinfo import fdinfo_lines
from mpmon.probes.files import Proc
from mpmon.probes.memory import Memory
from mpmon.probes.syscalls import WRITES

MAX_POLLED = 128
"""Most entries of a poll set that are read."""

PATH_MAX = 4096
"""linux/limits.h."""

FUTEX_CLOCK_REALTIME = 256
FUTEX_COMMAND = 0x7F
FUTEX_WAIT, FUTEX_WAIT_BITSET = 0, 9
"""linux/futex.h."""

EPOLLS = ("epoll_wait", "epoll_pwait", "epoll_pwait2")
ONCE = 1 << 31 | 1
"""EPOLLET and EPOLLIN of sys/epoll.h."""

TIMER_ABSTIME = 1
"""linux/time.h."""


class Call:
    """One system call with its arguments."""

    def __init__(self, name: str | None, args: tuple[int, ...], memory: Memory | None) -> None:
        self.name = name
        self.args = args
        self._memory = memory
        self._events: dict[int, int] | None = None

    def words(self, layout: str, address: int) -> tuple[int, ...] | None:
        """The values at an address, in a layout of `struct`; `None` if they cannot be read."""
        return self._memory.unpack(layout, address) if self._memory else None

    def descriptor(self) -> int:
        """The first argument as a descriptor."""
        return signed(self.args[0])

    def path(self, position: int) -> str | None:
        """The path that an argument points to; `None` if it cannot be read."""
        text = self._memory.read_some(self.args[position], PATH_MAX) if self._memory else b""
        return text.partition(b"\0")[0].decode("utf-8", "replace") or None

    def writes(self) -> bool:
        """Whether the call waits for room, not for data."""
        return self.name in WRITES

    def signals(self) -> tuple[int, ...]:
        """The numbers of the signals that it waits for; empty if it waits for none, or if they cannot be read."""
        words = self.words("Q", self.args[0]) if self.name == "rt_sigtimedwait" else None
        return tuple(number for number in range(1, 65) if words[0] >> (number - 1) & 1) if words else ()

    def timeout(self) -> float | None:
        """The longest time the call waits, seconds; `None` if unlimited or unknown."""
        if self.name in ("poll", "epoll_wait", "epoll_pwait"):
            position = 2 if self.name == "poll" else 3
            milliseconds = signed(self.args[position])
            return milliseconds / 1000 if milliseconds >= 0 else None
        if self.name == "rt_sigtimedwait":
            return self._timespec(self.args[2])
        if self.name == "semtimedop":
            return self._timespec(self.args[3])
        if self.name in ("ppoll", "pselect6"):
            return self._timespec(self.args[2 if self.name == "ppoll" else 4])
        if self.name == "select":
            moment = self.words("qq", self.args[4]) if self.args[4] else None
            return moment[0] + moment[1] / 1e6 if moment else None
        if self.name == "futex" and self.args[1] & FUTEX_COMMAND == FUTEX_WAIT:
            return self._timespec(self.args[3])
        return None

    def deadline(self) -> tuple[int, float] | None:
        """(clock id, moment on that clock in seconds) for calls with an absolute time limit."""
        if self.name == "clock_nanosleep" and self.args[1] & TIMER_ABSTIME:
            moment = self._timespec(self.args[2])
            return None if moment is None else (signed(self.args[0]), moment)
        if self.name == "futex" and self.args[1] & FUTEX_COMMAND == FUTEX_WAIT_BITSET and self.args[3]:
            moment = self._timespec(self.args[3])
            clock = 0 if self.args[1] & FUTEX_CLOCK_REALTIME else 1
            return None if moment is None else (clock, moment)
        if self.name in ("mq_timedsend", "mq_timedreceive"):
            moment = self._timespec(self.args[4])
            return None if moment is None else (0, moment)
        return None

    def pause(self) -> float | None:
        """Length of a relative sleep, seconds."""
        if self.name == "nanosleep":
            return self._timespec(self.args[0])
        if self.name == "clock_nanosleep" and not self.args[1] & TIMER_ABSTIME:
            return self._timespec(self.args[2])
        if self.name in ("select", "pselect6") and self.args[0] == 0:
            return self.timeout()
        return None

    def _timespec(self, address: int) -> float | None:
        moment = self.words("qq", address) if address else None
        return moment[0] + moment[1] / 1e9 if moment else None

    def polled(self, proc: Proc, pid: int) -> Iterator[int]:
        """The descriptors of a poll, select or epoll set."""
        if self.name in ("poll", "ppoll"):
            yield from self._poll_set()
        elif self.name in ("select", "pselect6"):
            yield from self._select_set()
        else:
            yield from self._epoll_set(proc, pid)

    def polled_once(self, proc: Proc, pid: int) -> Iterator[int]:
        """Those descriptors of an epoll set that wake it once for what comes to be read, not as long as there is something."""
        if self.name in EPOLLS:
            yield from (
                descriptor for descriptor, events in self._epoll_set(proc, pid).items() if events & ONCE == ONCE
            )

    def _epoll_set(self, proc: Proc, pid: int) -> dict[int, int]:
        """The events of each descriptor."""
        if self._events is None:
            lines = (line.split() for line in fdinfo_lines(proc, pid, self.descriptor())[:MAX_POLLED])
            self._events = {
                int(words[1]): int(words[3], 16) for words in lines if words[:1] == ["tfd:"] and len(words) > 3
            }
        return self._events

    def _poll_set(self) -> Iterator[int]:
        for index in range(min(self.args[1], MAX_POLLED)):
            entry = self.words("ihh", self.args[0] + 8 * index)
            if entry and entry[0] >= 0:
                yield entry[0]

    def _select_set(self) -> Iterator[int]:
        highest = min(self.args[0], 1024)
        for address in self.args[1:4]:
            bits = (
                self._memory.read(address, (highest + 63) // 64 * 8) if address and highest and self._memory else None
            )
            for descriptor in range(highest if bits else 0):
                if bits and bits[descriptor // 8] >> descriptor % 8 & 1:
                    yield descriptor


def signed(register: int) -> int:
    """A register that holds a C int."""
    return struct.unpack("=i", struct.pack("=I", register & 0xFFFFFFFF))[0]
