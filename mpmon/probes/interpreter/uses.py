"""Who holds and who wants the locks of one process, as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice

import msgspec

from mpmon.model import PERMITS, LockUse
from mpmon.probes.interpreter.contents import is_standard
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.held import BY_HAND, GIVES_BACK, RELEASES, SEMAPHORES, TAKES, Lock, Locks
from mpmon.probes.interpreter.inside import Inside
from mpmon.probes.interpreter.pages import Torn

WANTS = 2
"""The place of the call that wants a permit: those of `Condition.wait` and `Semaphore.acquire` are further in."""


class LockUses:
    """Rows of the locks that threads of a process hold, and of those that its sleeping threads want."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._locks = Locks(inside.objects, inside.layout, inside.blocks, inside.pid)
        self.rows: list[LockUse] = []
        self._ownerless: set[str] = set()
        """Held locks that do not record their owner."""
        self._wanted: dict[int, Lock] = {}
        """What threads wait for, by thread."""
        self._given_back: dict[int, bool] = {}
        """Whether others may give a permit back, by semaphore."""

    def read(self) -> None:
        """Fill the rows: first who holds, then who wants."""
        for tid in self._inside.stacks:
            self._inside.attempt(self._note_held, tid)
        for tid in self._inside.stacks:
            if tid in self._inside.sleepers:
                self._inside.attempt(self._note_wanted, tid)
                self._inside.attempt(self._note_permits, tid)

    def guess(self) -> None:
        """Add who may hold what nobody is known to hold, unless something could not be read."""
        self._note_taken_by_hand()
        self.rows = [self._doubted(row) for row in self.rows]

    # Held

    def _note_held(self, tid: int, frames: list[FrameInMemory]) -> None:
        given_back = {lock.address for frame in frames for lock in self._given_back_in(frame)}
        for depth, frame in enumerate(reversed(frames)):
            for lock, by_itself in self._locks.held_in(frame):
                named = not lock.owner or self._inside.by_ident.get(lock.owner) == tid
                if lock.locked and named and lock.address not in given_back:
                    row = self._use(tid, lock, holds=True, frame=frame, depth=depth)
                    self._ownerless |= set() if lock.owner else {lock.id}
                    kept = bool(lock.owner) or not any(map(_gives_back, frames[: len(frames) - depth]))
                    self.rows.append(row if kept and by_itself else msgspec.structs.replace(row, exact=False))

    def _given_back_in(self, frame: FrameInMemory) -> Iterator[Lock]:
        """Within `Condition.wait` its lock is not held, although the `with` block around it has not ended."""
        if _is_wait(frame):
            yield from self._locks.of(frame.argument(0))

    def _doubted(self, row: LockUse) -> LockUse:
        """A lock without an owner may have been released by a finished call, and taken by hand by another thread."""
        if not row.holds or row.object not in self._ownerless:
            return row
        waiters = {use.tid for use in self.rows if not use.holds and use.object == row.object}
        others = (frames for tid, frames in self._inside.stacks.items() if tid != row.tid and tid not in waiters)
        try:
            by_hand = any(
                TAKES in frame.names for frames in others for frame in frames if not is_standard(frame.code.file)
            )
        except Torn:
            by_hand = True
        return msgspec.structs.replace(row, exact=False) if by_hand else row

    # Held without a block

    def _note_taken_by_hand(self) -> None:
        """Of a lock that someone waits for, in nobody's block: the one thread that may have taken it by hand. A thread that was
        not read may have it, too, and so may any other whose calls take or release locks at all.
        """
        stacks = self._inside.stacks
        if self._inside.problem or not all(stacks.values()):
            return
        held = {row.object for row in self.rows if row.holds}
        wanted = {lock.id: lock for lock in self._wanted.values() if lock.id not in held and not lock.owner}
        with suppress(Torn):
            by_hand = {tid: found for tid, frames in stacks.items() if (found := _by_hand(frames))} if wanted else {}
            for lock in wanted.values():
                others = ((tid, self._besides(tid, lock, found)) for tid, found in by_hand.items())
                may = list(islice(((tid, found) for tid, found in others if found), 2))
                if len(may) == 1 and (row := self._taken_in(lock, *may[0])):
                    self.rows.append(row)

    def _besides(self, tid: int, lock: Lock, found: list[tuple[int, FrameInMemory]]) -> list[tuple[int, FrameInMemory]]:
        """The calls without the innermost one of a thread that waits for this lock, which wants it."""
        innermost = len(self._inside.stacks[tid]) - 1
        return [row for row in found if row[0] < innermost] if self._waits_for(tid, lock) else found

    def _waits_for(self, tid: int, lock: Lock) -> bool:
        return tid in self._wanted and self._wanted[tid].id == lock.id

    def _taken_in(self, lock: Lock, tid: int, calls: list[tuple[int, FrameInMemory]]) -> LockUse | None:
        """The innermost of these calls that may have taken this lock by hand. Raises `Torn`."""
        for depth, frame in calls:
            if self._locks.may_be_taken_in(frame, lock):
                return msgspec.structs.replace(self._use(tid, lock, holds=True, frame=frame, depth=depth), exact=False)
        return None

    # Wanted

    def _note_wanted(self, tid: int, frames: list[FrameInMemory]) -> None:
        """The lock that a sleeping thread waits for, as an operand of its innermost call."""
        if not frames:
            return
        operands = (lock for value in frames[0].upper for lock in self._locks.operand(value))
        lock = next((lock for lock in operands if self._awaits(tid, lock)), None)
        if lock is None:
            return
        self._wanted[tid] = lock
        owner = self._inside.by_ident.get(lock.owner)
        wanted = self._use(tid, lock, holds=False, frame=frames[0], depth=len(frames) - 1)
        self.rows.append(msgspec.structs.replace(wanted, owner_missing=bool(lock.owner and owner is None)))
        if owner and not any(row.holds and row.object == lock.id for row in self.rows):
            row = self._use(owner, lock, holds=True)
            self.rows.append(msgspec.structs.replace(row, exact=self._took_by_hand(owner)))

    def _took_by_hand(self, tid: int) -> bool:
        """Whether one of its calls takes locks by hand; otherwise the ident may be that of an ended thread."""
        return any(TAKES in frame.names for frame in self._inside.stacks.get(tid, ()))

    def _awaits(self, tid: int, lock: Lock) -> bool:
        """Whether it sleeps on the lock's word; where locks have no such word, whether the lock is locked at all."""
        return lock.id == self._inside.sleepers[tid] if self._inside.layout.lock_word else lock.locked

    # Permits of semaphores

    def _note_permits(self, tid: int, frames: list[FrameInMemory]) -> None:
        """The semaphore in whose `acquire` a thread sleeps, and who is in a `with` block of it: Lib/threading.py, where
        `__enter__` is `acquire`.
        """
        if len(frames) <= WANTS or not _is_wait(frames[0]) or frames[1].code.name != TAKES:
            return
        semaphore, asks = frames[1].argument(0), frames[WANTS]
        if not frames[1].code.file.endswith("/threading.py") or self._inside.objects.kind(semaphore) not in SEMAPHORES:
            return
        name = f"{PERMITS}{self._inside.pid}:{semaphore:#x}"
        row = LockUse(
            pid=self._inside.pid, tid=tid, object=name, kind="Semaphore", holds=False, function=asks.code.name
        )
        known = any(use.holds and use.object == name for use in self.rows)
        holding = () if known else tuple(self._holding(semaphore))
        self.rows += [
            msgspec.structs.replace(row, tid=other, holds=True, function=frame.code.name, depth=depth, exact=False)
            for other, depth, frame in holding
        ]
        gives_back = TAKES not in asks.names or RELEASES in asks.names
        alone = gives_back and not self._may_be_given_back(semaphore)
        self.rows.append(msgspec.structs.replace(row, depth=len(frames) - WANTS - 1, alone=alone))

    def _holding(self, semaphore: int) -> Iterator[tuple[int, int, FrameInMemory]]:
        for tid, frames in self._inside.stacks.items():
            for place, frame in enumerate(frames):
                if self._locks.has_permit_of(frame, semaphore):
                    yield tid, len(frames) - place - 1, frame

    def _may_be_given_back(self, semaphore: int) -> bool:
        """Whether a call outside of the library, but those that wait for this semaphore, looks up `release`, or may."""
        if semaphore not in self._given_back:
            self._given_back[semaphore] = not all(
                frames and not any(RELEASES in frame.names for frame in _before_wait(frames, semaphore))
                for frames in self._inside.stacks.values()
            )
        return self._given_back[semaphore]

    # Of a program's own making

    def note_entering(self, polling: Collection[int]) -> None:
        """Note the locks of a program's own making that these threads poll for, or sleepers sleep for, to enter a
        `with` block.
        """
        for tid in polling:
            self._inside.attempt(self._note_polled, tid)
        for tid in set(self._inside.sleepers).difference(polling):
            self._inside.attempt(self._note_slept_for, tid)

    def _note_polled(self, tid: int, frames: list[FrameInMemory]) -> None:
        self._note_entering(tid, frames, asleep=False)

    def _note_slept_for(self, tid: int, frames: list[FrameInMemory]) -> None:
        # Any other wait is in a lock that is known by itself, or in C, such as in a barrier of ranks.
        if frames and _is_wait(frames[0]):
            self._note_entering(tid, frames, asleep=True)

    def _note_entering(self, tid: int, frames: list[FrameInMemory], *, asleep: bool) -> None:
        if found := self._inside.blocks.entering(frames):
            kind, name, place = found
            row = LockUse(
                pid=self._inside.pid, tid=tid, object=name, kind=kind, holds=False, exact=False, asleep=asleep
            )
            depth = len(frames) - place - 1
            self.rows.append(msgspec.structs.replace(row, function=frames[place].code.name, depth=depth))

    def _use(
        self, tid: int, lock: Lock, *, holds: bool, frame: FrameInMemory | None = None, depth: int | None = None
    ) -> LockUse:
        name = frame.code.name if frame else None
        return LockUse(
            pid=self._inside.pid, tid=tid, object=lock.id, kind=lock.kind, holds=holds, function=name, depth=depth
        )


def _before_wait(frames: list[FrameInMemory], semaphore: int) -> Iterator[FrameInMemory]:
    """The calls outside of the standard library, without the one that waits for this semaphore."""
    waits = len(frames) > WANTS and frames[1].code.name == TAKES and frames[1].argument(0) == semaphore
    return (frame for frame in frames[WANTS + 1 if waits else 0 :] if not is_standard(frame.code.file))


def _is_wait(frame: FrameInMemory) -> bool:
    """In `Condition.wait` of Lib/threading.py, also below `Event.wait`."""
    return frame.code.name == "wait" and frame.code.file.endswith("/threading.py")


def _by_hand(frames: list[FrameInMemory]) -> list[tuple[int, FrameInMemory]]:
    """The calls, innermost first and with the number of those outside of each, that take or release locks by hand."""
    own = ((len(frames) - place - 1, frame) for place, frame in enumerate(frames) if not is_standard(frame.code.file))
    return [(depth, frame) for depth, frame in own if not frame.names.isdisjoint(BY_HAND)]


def _gives_back(frame: FrameInMemory) -> bool:
    """Whether it may release a lock that it did not take, which the standard library does not do."""
    return not is_standard(frame.code.file) and bool(frame.names & GIVES_BACK)
