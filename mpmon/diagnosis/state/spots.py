"""What ranks do between samples: where their main threads were found, explained by samples that found them at the same
place.

Frames are expensive and read seldom. A thread's system call, stack pointer and program counter are read in each round.
If all three equal those of a sample, the thread waits for the same thing as it did then:

- The program counter is the instruction that entered the kernel. The stack pointer is the sum of the frames of all C
  functions that led there. Two waits of one thread agree in both only if the same C functions called one another (or
  others whose frames have the same size to the byte).
- They do not identify the Python frames: from 3.11 on, a Python-to-Python call takes no room on the C stack, and one line
  that calls a builtin looks like another. Two sleeps are both the rank's own time; a poll by the loader and a poll by user
  code are not the same. So a place is ignored once two samples found different kinds of waits in it.
- A sample counts only if the thread did not run while its frames and its place were read (`Stack.place`).

A *pause* is a period in which the main threads of all ranks but at most one did not run: a checkpoint, an evaluation on
one rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from mpmon.diagnosis.findings import Pause, Place
from mpmon.diagnosis.stacks.frames import innermost_user, place
from mpmon.diagnosis.stacks.waits import Wait, wait_state
from mpmon.diagnosis.thresholds import LINE_LOOKS, LINE_SHARE, RANKS_PAUSE_S
from mpmon.model import Blocked, CallPlace, Snapshot, Stack

KEPT_PAUSES = 8

MOST_PLACES, MOST_LINES = 64, 8
"""At most this many places per rank, and lines per place, are remembered."""

RUNNING = "running"
"""The call of a thread on a CPU."""


_TRANSFERS = frozenset({"read", "readv", "write", "writev"})
"""Calls that may operate on a file, a pipe or a socket."""


class Doing(Enum):
    """What a rank spends its time on."""

    RANKS = "waits for other ranks"
    DATA = "waits for its batches"
    ITSELF = "computes, sleeps, or reads and writes files"
    ELSE = "waits for something else"


_DOINGS = {
    **dict.fromkeys((Wait.COLLECTIVE, Wait.RENDEZVOUS, Wait.STORE_KEY), Doing.RANKS),
    Wait.LOADER_BATCH: Doing.DATA,
    **dict.fromkeys((Wait.RUNNING, Wait.SLEEP, Wait.FILE), Doing.ITSELF),
}


class Told(msgspec.Struct, frozen=True, gc=False):
    """What samples found at the place where a rank waits."""

    doing: Doing | None
    """`None` if they differ."""
    lines: tuple[tuple[Place, int], ...]
    """Places in the user's code, and how often each was found; the first few."""

    def and_by(self, other: Told) -> Told:
        """These findings merged with those of another sample."""
        lines = Counter(dict(self.lines))
        lines.update(dict(other.lines))
        return Told(self.doing if self.doing is other.doing else None, tuple(lines.items())[:MOST_LINES])

    @property
    def line(self) -> Place | None:
        """The place that most samples found, if there are enough of them."""
        line, count = max(self.lines, key=lambda row: row[1], default=(None, 0))
        return line if count >= max(LINE_LOOKS, LINE_SHARE * sum(count for _, count in self.lines)) else None


Places = Mapping[CallPlace, Told]
"""Of one rank."""


class Spots(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of the ranks' main threads."""

    places: Mapping[tuple[int, float], Places] = {}
    """By process."""
    stand_since: float | None = None
    """Since when all ranks but one have stood still, seconds since the epoch."""
    ran: frozenset[int] = frozenset()
    """The ranks that have run since."""
    pauses: tuple[Pause, ...] = ()
    """The last pauses, oldest first."""

    def add(self, before: Snapshot | None, now: Snapshot, sample: Callable[[int], Stack | None]) -> Spots:
        """With one more round; `sample` gives the frames of a main thread that this round sampled."""
        if not now.spots:
            return self if not self.places else msgspec.structs.replace(self, stand_since=None, ran=frozenset())
        found = self._wait_state(before, now) if before else self
        learned = self._places(now, sample)
        return found if learned is self.places else msgspec.structs.replace(found, places=learned)

    def _places(self, now: Snapshot, sample: Callable[[int], Stack | None]) -> Mapping[tuple[int, float], Places]:
        keys = {row.pid: row.key for row in now.processes}
        new: dict[tuple[int, float], Places] = {}
        for spot in now.spots:
            stack = sample(spot.pid)
            if stack is None or stack.place is None or stack.place[0] == RUNNING or spot.pid not in keys:
                continue
            known = self.places.get(keys[spot.pid], {})
            found = _told(stack, stack.place[0])
            told = known[stack.place].and_by(found) if stack.place in known else found
            if stack.place in known or len(known) < MOST_PLACES:
                new[keys[spot.pid]] = {**known, stack.place: told}
        if not new and self.places.keys() <= set(keys.values()):
            return self.places
        kept = {key: places for key, places in self.places.items() if keys.get(key[0]) == key}
        return {**kept, **new}

    def _wait_state(self, before: Snapshot, now: Snapshot) -> Spots:
        slices = {spot.pid: spot.slices for spot in before.spots}
        both = [spot for spot in now.spots if spot.pid in slices]
        ran = frozenset(spot.pid for spot in both if spot.place[0] == RUNNING or spot.slices != slices[spot.pid])
        if len(both) > 1 and len(ran | self.ran) <= 1:
            since = before.taken_at if self.stand_since is None else self.stand_since
            return msgspec.structs.replace(self, stand_since=since, ran=ran | self.ran)
        if self.stand_since is None:
            return self
        pauses = self.pauses
        if before.taken_at - self.stand_since >= RANKS_PAUSE_S:
            ended = Pause(began=self.stand_since, ended=before.taken_at, ran=tuple(self.ran))
            pauses = (*pauses[1 - KEPT_PAUSES :], ended)
        return msgspec.structs.replace(self, stand_since=None, ran=frozenset(), pauses=pauses)


def doing_of(places: Places, at: CallPlace) -> Doing | None:
    """What a rank did at this place; `None` if no sample shows it."""
    told = places.get(at)
    return Doing.ITSELF if at[0] == RUNNING else told.doing if told else None


def _told(stack: Stack, call: str) -> Told:
    """By frames and system call; the source of a read is unknown, and may be another process that has yet to write."""
    found = wait_state(stack, Blocked(pid=stack.pid, tid=stack.tid, state="S", syscall=call))
    unclear = found.kind is Wait.FILE and call in _TRANSFERS
    frame = innermost_user(stack)
    return Told(Doing.ELSE if unclear else _DOINGS.get(found.kind, Doing.ELSE), ((place(frame), 1),) if frame else ())
