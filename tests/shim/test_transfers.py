"""What `mpmon.shim.transfers` keeps of sendings, in memory of our own: no file, no torch."""

from __future__ import annotations

from threading import Thread
from typing import ClassVar

import pytest

from mpmon.shim import layout, transfers
from mpmon.shim.transfers import Imports
from mpmon.shim.writer import WRITER, Room

HANDLE = b"/torch_1_2"
MOST = 2
"""Records there is room for."""


class Storage:
    """Of torch's, what a transfer asks."""

    ended: ClassVar[set[int]] = set()

    def _weak_ref(self) -> int:
        return id(self)

    @classmethod
    def _expired(cls, reference: int) -> bool:
        return reference in cls.ended

    @staticmethod
    def _free_weak_ref(reference: int) -> None:
        Storage.ended.discard(reference)


@pytest.fixture
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Storage, "ended", set())
    whole = memoryview(bytearray(layout.SIZE))
    texts = Room(WRITER, layout.TEXTS, allocated=layout.STEP, reserved=1)
    room = Room(WRITER, layout.IMPORTS, allocated=MOST * layout.IMPORTS.record_bytes)
    mine = {
        "bytes": whole,
        "words": whole.cast("Q"),
        "path": "memory",
        "texts": texts,
        "imports": room,
        "is_full": True,
    }
    for name, value in mine.items():
        monkeypatch.setattr(WRITER, name, value)


@pytest.fixture
def imports(region: None) -> Imports:
    del region
    return Imports(layout.IMPORTS, Storage)


def seals(imports: Imports) -> list[bool]:
    """Which records are in use."""
    first, words = layout.IMPORTS.start // layout.WORD, layout.IMPORTS.record_words
    return [bool(WRITER.words[first + number * words + layout.TRANSFER_SEAL]) for number in range(MOST)]


def note(imports: Imports, storage: Storage, *, slot: int = 0) -> None:
    imports.note(HANDLE, slot, storage, 0, 0, 0)


def test_a_full_region_looks_again_and_has_room_for_the_next_one(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1
    monkeypatch.setattr(transfers, "monotonic_ns", lambda: now)
    first, second, third = Storage(), Storage(), Storage()
    note(imports, first)
    note(imports, second)
    Storage.ended.add(id(first))
    now += 2 * transfers.CHECK_NS
    note(imports, third)  # there is no room for this one
    assert seals(imports) == [False, True]
    assert WRITER.words[layout.DROPPED] == 1
    note(imports, third)
    assert seals(imports) == [True, True]


def test_all_are_counted_also_those_there_was_no_room_for(imports: Imports) -> None:
    storages = [Storage() for _ in range(MOST + 1)]
    for storage in storages:
        note(imports, storage)
    assert layout.written(WRITER.words[layout.IMPORTS.generation_at]) == MOST + 1


class Interrupted(Imports):
    """Another thread asks for a check in the middle of the first look, when something has just ended."""

    asked = False

    def _check(self, most: int) -> None:
        super()._check(most)
        if not self.asked:
            self.asked = True
            Storage.ended.update(reference for _, _, _, reference in self._under_way)
            asks = Thread(target=self.check)
            asks.start()
            asks.join()


def test_a_check_that_comes_while_another_thread_looks_is_made_afterwards(region: None) -> None:
    del region
    imports = Interrupted(layout.IMPORTS, Storage)
    note(imports, Storage())
    assert imports.asked
    assert seals(imports) == [False, False]
