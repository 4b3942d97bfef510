"""What the writer folds into words comes out of them again, and a damaged record does not pass for a whole one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mpmon.shim import layout

WORDS = st.integers(0, 2**64 - 1)
REGIONS = (layout.QUEUES, layout.TEXTS, layout.EXPORTS, layout.IMPORTS)


def test_regions_do_not_overlap_and_fit_into_the_file() -> None:
    ends = [layout.HEADER_WORDS * layout.WORD]
    for region in REGIONS:
        assert region.start >= ends[-1]
        assert region.start % layout.WORD == 0
        ends.append(region.start + region.most * region.record_bytes)
    assert ends[-1] <= layout.SIZE
    assert layout.SIZE % (1 << 16) == 0


def test_words_of_the_header_have_one_meaning_each() -> None:
    named = [layout.PID, layout.START_TICKS, layout.PPID, layout.PGID, layout.OPENED_AT, layout.IDENTITY_SEAL]
    counted = [at for region in REGIONS for at in (region.used_at, region.generation_at)]
    all_words = [0, *named, layout.DROPPED, layout.COLLECTED_AT, *counted]
    assert len(set(all_words)) == len(all_words)
    assert max(all_words) < layout.HEADER_WORDS


@given(st.integers(0, 2), st.integers(0, 2047), st.integers(0, 2**31 - 1))
def test_how_a_queue_was_made(kind: int, site: int, capacity: int) -> None:
    assert layout.unmade(layout.made(kind, site, capacity)) == (kind, site, capacity)


@given(st.integers(0, 2**48 - 1), st.integers(0, 255), st.integers(0, 3))
def test_what_was_transferred(size: int, device: int, flags: int) -> None:
    assert layout.unwhat(layout.what(size, device, flags)) == (size, device, flags)


@given(st.integers(0, 2**32 - 1), st.integers(0, 9999), st.integers(0, 2047))
def test_which_transfer(inode: int, slot: int, file: int) -> None:
    assert layout.unwhich(layout.which(inode, slot, file)) == (inode, slot, file)


def test_words_stay_words() -> None:
    assert layout.which(2**40, 2**20, 3) < 2**64
    assert layout.what(2**60, 2**20, 3) < 2**64
    assert layout.made(2, 2047, 2**40) < 2**64


@given(st.lists(WORDS, min_size=4, max_size=4), st.integers(0, 3), WORDS)
def test_a_seal_does_not_fit_other_words(words: list[int], at: int, other: int) -> None:
    seal = layout.seal(words)
    assert 0 < seal < 2**64
    if other != words[at]:
        assert layout.seal([*words[:at], other, *words[at + 1 :]]) != seal


@given(st.text(min_size=1, max_size=40))
def test_a_text(text: str) -> None:
    encoded = text.encode("utf-8", "replace")[-layout.TEXT_BYTES :]
    record = (layout.text_seal(encoded).to_bytes(8, "little") + encoded).ljust(layout.TEXTS.record_bytes, b"\0")
    assert layout.untext(record) == encoded.decode("utf-8", "replace")


@given(st.binary(max_size=layout.TEXTS.record_bytes))
def test_any_bytes_are_a_text_or_none(record: bytes) -> None:
    assert isinstance(layout.untext(record), str | None)
