"""The protocol on streams that tear, delay, repeat, lose, mix in noise, lie, and never end."""

from __future__ import annotations

import random
import zlib
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.nodes import wire
from mpmon.nodes.digest import Class, Kind
from mpmon.nodes.wire import Beat, Bye, Clocks, FromAgent, Garbage, Hello, Lines, OtherProtocol, Round, Unpacker, frames

LONG = msgspec.Raw(b'"' + random.Random(7).randbytes(20_000).hex().encode() + b'"')
"""What zlib does not make one frame of."""

CLASSES = (
    Class(
        kind=Kind(role="rank", waits="COLLECTIVE"),
        does="waiting",
        ranks=((0, 7),),
        nodes=((0, 0),),
        first=(0, 0),
        oldest=1.0,
    ),
)

SAID = (
    Hello(version="0.1.0", host="n1", jobs=(wire.JobHere(root=7, key="MASTER_PORT=29500"),)),
    Beat(clock=1000.0, answers=3),
    Round(answers=1, age_s=0.5, classes=CLASSES, snapshot=LONG),
    Beat(clock=1001.0),
    Bye(reason="no query for 30 s"),
)
STREAM = b"".join(b"".join(frames(number, message)) for number, message in enumerate(SAID, 1))


_CLASS = b'{"kind":{"role":"rank","does":"%s"},"ranks":%s,"nodes":[],"first":[0,0],"oldest":%s}'

STRANGE = (
    b"7", b"[7]", b"[{}]", b'[{"kind":7}]',
    b"[%s]" % b",".join([_CLASS % (b"x", b"[]", b"0")] * 99),
    *(b"[" + _CLASS % (does, ranks, oldest) + b"]" for does, ranks, oldest in (
        (b"x" * 999, b"[]", b"0"), (b"x", b"[[-1,0]]", b"0"), (b"x", b"[[0,%d]]" % (1 << 40), b"0"), (b"x", b"[[0]]", b"0"),
        (b"x", b"[%s]" % b",".join([b"[0,0]"] * 9999), b"0"), (b"x", b"[]", b"-1"), (b"x", b"[]", b"1e300"),
    )),
)  # fmt: skip
"""Classes that no agent says."""


def heard(*chunks: bytes) -> list[FromAgent]:
    lines, unpacker = Lines(), Unpacker[FromAgent](FromAgent)
    return [message for chunk in chunks for message in unpacker.feed(lines.feed(chunk))]


def torn(stream: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[begin:end] for begin, end in pairwise(ends)]


def with_lines_between(stream: bytes, noise: list[bytes]) -> bytes:
    """A line of noise before each frame, in turn."""
    whole = stream.splitlines(keepends=True)
    return b"".join(noise[at % len(noise)] + line for at, line in enumerate(whole))


def test_a_frame_is_a_short_line_of_ascii() -> None:
    for line in STREAM.splitlines(keepends=True):
        assert len(line) <= wire.LONGEST_FRAME
        assert line.isascii()
        assert line.rstrip(b"\n").decode().isprintable()


@given(st.lists(st.integers(0, len(STREAM)), max_size=60))
def test_torn_anywhere(cuts: list[int]) -> None:
    assert heard(*torn(STREAM, cuts)) == list(SAID)


@given(st.lists(st.binary(max_size=80).map(lambda noise: noise.replace(b"\n", b"") + b"\n"), min_size=1, max_size=5))
def test_between_lines_of_noise(noise: list[bytes]) -> None:
    assert heard(with_lines_between(STREAM, noise)) == list(SAID)


def test_behind_a_login_message_and_a_prompt_without_a_line_feed() -> None:
    motd = b"Welcome to n1\n\n * 3 updates\n\xff\xfe\nsrun: job 7 queued\npyenv: cannot rehash\n$ "

    assert heard(motd + STREAM) == list(SAID)


def test_with_carriage_returns_of_a_terminal() -> None:
    assert heard(STREAM.replace(b"\n", b"\r\n")) == list(SAID)


def test_every_frame_twice() -> None:
    twice = b"".join(line * 2 for line in STREAM.splitlines(keepends=True))

    assert [message for message in heard(twice) if isinstance(message, Round)] == [SAID[2]]


@pytest.mark.parametrize("lost", range(3, 30, 5))
def test_a_lost_frame_costs_its_message_and_no_other(lost: int) -> None:
    lines = STREAM.splitlines(keepends=True)
    del lines[lost]

    assert heard(b"".join(lines)) == [message for message in SAID if not isinstance(message, Round)]


@pytest.mark.parametrize("at", [20, 400, 700])
def test_a_frame_with_a_wrong_letter_is_noise(at: int) -> None:
    lines = STREAM.splitlines(keepends=True)
    lines[5] = lines[5][:at] + (b"A" if lines[5][at : at + 1] != b"A" else b"B") + lines[5][at + 1 :]

    assert heard(b"".join(lines)) == [message for message in SAID if not isinstance(message, Round)]


def test_two_messages_of_which_one_comes_in_between_the_parts_of_the_other() -> None:
    parts = list(frames(1, SAID[2]))
    beat = b"".join(frames(2, SAID[1]))

    assert heard(b"".join(parts[:4]) + beat + b"".join(parts[4:])) == [SAID[1], SAID[2]]


def test_parts_that_are_never_finished_give_way() -> None:
    unpacker = Unpacker[FromAgent](FromAgent)
    for number in range(1, 1000):
        unpacker.feed(next(frames(number, SAID[2])).splitlines())

    assert len(unpacker._unfinished) == wire.MOST_UNFINISHED


def test_a_line_without_end_takes_no_memory() -> None:
    lines, unpacker = Lines(), Unpacker[FromAgent](FromAgent)
    for _ in range(10_000):
        assert unpacker.feed(lines.feed(b"x" * 4096)) == []
        assert len(lines._pending) <= wire.LONGEST_FRAME

    assert unpacker.feed(lines.feed(b"\n" + STREAM)) == list(SAID)


def test_noise_without_end() -> None:
    with pytest.raises(Garbage, match="something else"):
        heard(*[b"yes\n" * 1000] * 1000)


@given(st.binary(max_size=2000))
def test_any_bytes(chunk: bytes) -> None:
    assert heard(chunk) == []


@given(st.binary(max_size=200))
def test_any_message(content: bytes) -> None:
    """Well framed, with the right check, and made of anything."""
    with pytest.raises(Garbage, match="cannot be read"):
        heard(framed(zlib.compress(content)))


def framed(packed: bytes, protocol: int = wire.PROTOCOL, of: int = 1) -> bytes:
    data = msgspec.json.encode(packed)[1:-1]
    place = b"9 0 %d" % of
    return b"%s%d %s %s %s\n" % (wire.MARK, protocol, place, wire._check(place, data), data)


def test_nested_beyond_all_bounds() -> None:
    with pytest.raises(Garbage, match="cannot be read"):
        heard(framed(zlib.compress(b'{"says":"bye","x":' + b"[" * 100_000)))


def test_a_bomb_of_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_UNPACKED", 100_000)
    with pytest.raises(Garbage, match="more than"):
        heard(framed(zlib.compress(b" " * 500_000)))


def test_more_parts_than_any_message_has() -> None:
    with pytest.raises(Garbage, match="more than 16 MiB"):
        heard(framed(b"xxx", of=99_999))


@pytest.mark.parametrize("protocol", [0, 2, 99])
def test_another_version_of_the_protocol(protocol: int) -> None:
    with pytest.raises(OtherProtocol, match=f"version {protocol} of mpmon's protocol, and this mpmon speaks version 1"):
        heard(framed(b"whatever", protocol=protocol))


def test_another_version_whose_frames_look_different() -> None:
    with pytest.raises(OtherProtocol, match="version 2"):
        heard(b"@mpmon.nodes/2 1 {}\n")


@pytest.mark.parametrize(
    "text",
    [b'{"says":"beat"}', b'{"says":"beat","clock":-1}', b'{"says":"beat","clock":1e300}', b'{"says":"round"}', b'{"says":"no"}',
     b'{"says":"watch"}', b'{"says":"round","answers":1,"age_s":-5,"snapshot":{}}', b"[]", b"null", b"",
     b'{"says":"hello","version":"%s","host":""}' % (b"v" * 2000),
     *(b'{"says":"round","answers":1,"age_s":0,"classes":%s}' % classes for classes in STRANGE)],
)  # fmt: skip
def test_a_message_that_says_what_cannot_be(text: bytes) -> None:
    with pytest.raises(Garbage, match="cannot be read"):
        heard(framed(zlib.compress(text)))


# Clocks


def test_the_quickest_exchange_tells_most_about_a_clock() -> None:
    clocks = Clocks()
    assert clocks.offset_s is None
    clocks.add(10.0, 3615.0, 12.0)
    clocks.add(20.0, 3620.01, 20.02)
    clocks.add(30.0, 3639.0, 34.0)

    assert clocks.offset_s == pytest.approx(3600.0)


def test_an_offset_does_not_tremble() -> None:
    clocks = Clocks()
    told = set()
    for at in range(20):
        clocks.add(at, at + 5.0 + 0.004 * (at % 5), at + 0.01)
        told.add(clocks.offset_s)

    assert len(told) == 1


@given(st.lists(st.tuples(st.floats(0.001, 5.0), st.floats(0.0, 1.0)), min_size=1, max_size=20))
def test_the_error_is_at_most_as_long_as_the_quickest_exchange(exchanges: list[tuple[float, float]]) -> None:
    clocks, now = Clocks(), 0.0
    for took, way in exchanges:
        now += 10.0
        clocks.add(now, now + way * took - 50.0, now + took)

    quickest = min(took for took, _ in exchanges[-Clocks.KEPT :])
    assert clocks.offset_s is not None
    assert abs(clocks.offset_s + 50.0) <= quickest + Clocks.TREMBLE_S
