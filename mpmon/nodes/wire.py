r"""Messages between mpmon and its agents on other machines: the protocol `mpmon.nodes/1`.

A message is JSON of one of the rows below, packed by zlib, in base64, cut into frames.  A frame is a line of ASCII:

    @mpmon.nodes/1 NUMBER PART OF CHECK DATA

NUMBER is that of the message, PART of OF its place in the message, CHECK the CRC-32 of everything else.  This one form
survives whatever a carrier does to a stream:

- Login messages, srun(1)'s messages, output of login files: a line without the mark and a correct CHECK is noise,
  before the first frame and between any two. Text before the mark in a line is noise too, so a prompt without a line
  feed is harmless.
- srun cuts lines at 1 kB, and a pipe keeps writes together up to PIPE_BUF (pipe(7)): no frame is longer than
  `LONGEST_FRAME`.
- A torn, lost or repeated frame costs its own message and no other; the sender of an unanswered query repeats it.
- Everything is bounded: a line, a message packed and unpacked, incomplete messages, noise.  Anything beyond a bound is
  `Garbage`, after which nothing more is read from that sender.

A terminal that shows such a line by mistake is unaffected, and nothing is ever run or unpickled.

Moments of two machines cannot be compared, so messages contain ages, and a beat its sender's clock: see `Clocks`.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections import deque
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Generic, TypeVar

import msgspec

from mpmon.model import Amount, Figures, Moment, Row
from mpmon.nodes.digest import MOST_CLASSES, Class
from mpmon.probes.nccl_ras import Communicator

PROTOCOL = 1
MARK = b"@mpmon.nodes/"

LONGEST_FRAME = 900
"""Bytes, with the line feed."""

_PIECE = 600
"""Bytes of a packed message in one frame: 800 in base64."""

MOST_PACKED = 16 << 20
"""Most bytes of a message as sent. A round of 73 processes takes 0.1 MB."""

MOST_UNPACKED = 128 << 20
"""Most bytes unpacked; zlib could expand a message a thousandfold."""

MOST_UNFINISHED = 4
"""Most incomplete messages kept; the oldest is dropped first, since the rest of it was lost."""

MOST_NOISE = 1 << 20
"""Most bytes of noise from one sender."""

LONGEST_REMARK = 200
"""Longest line of noise kept for people, in characters."""

_FRAME = re.compile(rb"%s(\d{1,4}) (\d{1,9}) (\d{1,5}) (\d{1,5}) ([0-9a-f]{8}) ([A-Za-z0-9+/=]{4,800})\s*\Z" % MARK)

_OTHER = re.compile(rb"%s(\d{1,4})\b" % MARK)
"""The beginning of the frames of all versions."""

LEASE_S = 30.0
"""An agent that receives nothing for this long ends: a container's runtime may keep it when its carrier has died."""

ALIVE_S = 5.0
"""Interval between the front end's messages that keep agents alive."""

BEAT_S = 1.0
"""Interval between two beats of an agent."""

Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
Number = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
Word = Annotated[str, msgspec.Meta(max_length=1000)]


FIGURES = tuple(name for name in Figures.__struct_fields__ if name not in ("host", "reasons"))
"""Names of a machine's figures: without them a message has a few dozen bytes of figures."""

NOTHING = msgspec.Raw(b"null")
"""No facts."""


class Said(Row, frozen=True, kw_only=True, tag_field="says", tag=str.lower):
    """Base of all messages; fields of later versions are ignored."""


# From an agent


class JobHere(Row, frozen=True, kw_only=True):
    """One job that runs on the agent's machine."""

    root: Annotated[int, msgspec.Meta(ge=1, le=1 << 22)]
    """The pid of its topmost process here."""
    key: Word = ""
    """What its parts on all machines have in common: rendezvous and size; empty if unknown."""
    processes: int = 1
    command: Word = ""


class Hello(Said, frozen=True, kw_only=True):
    """The first message of an agent."""

    version: Word
    """The version of mpmon."""
    host: Word
    machine: Word = ""
    """Boot id and pid namespace: two agents of one machine and job see the same processes."""
    address: Word = ""
    """Its address in `Ask`: a carrier brings each message to all of its agents."""
    jobs: Annotated[tuple[JobHere, ...], msgspec.Meta(max_length=1000)] = ()


class Beat(Said, frozen=True, kw_only=True):
    """Once a second, and as the answer to `Alive`."""

    answers: Number = 0
    """The number of the `Alive` that it answers."""
    clock: Moment
    """The agent's time."""


class Round(Said, frozen=True, kw_only=True):
    """An agent's latest sample: a brief report, and its facts if they were requested."""

    answers: Number
    """The number of the query."""
    follows: Number = 0
    """The query with the previous answer, which holds the tables that are `null` here; 0 for none."""
    age_s: Seconds
    """Its age when this was sent, seconds."""
    last: bool = False
    """The job has ended here."""
    classes: Annotated[tuple[Class, ...], msgspec.Meta(max_length=MOST_CLASSES)] | None = None
    """What its ranks wait in (`mpmon.nodes.digest`); `None` if unchanged."""
    figures: Annotated[tuple[Amount | None, ...], msgspec.Meta(max_length=len(FIGURES))] = ()
    """The machine's figures, in the order of `FIGURES`; empty if unknown."""
    reasons: Annotated[dict[Word, Word], msgspec.Meta(max_length=len(FIGURES))] | None = None
    """Why some of them are unknown; `None` if unchanged."""
    rights: Word | None = None
    """As in `mpmon.model.Node`; `None` if unchanged."""
    snapshot: msgspec.Raw = NOTHING
    """The facts as a line of a recording: `mpmon.codec.encode_round`."""


NO_JOB = 4
"""Exit status of an agent that finds no process of the job: it may be started there later."""


class RasAnswer(Said, frozen=True, kw_only=True):
    """NCCL RAS's answer to one agent, about the whole job (`mpmon.probes.nccl_ras`)."""

    answers: Number
    """The number of the query."""
    communicators: tuple[Communicator, ...] = ()
    problem: Word = ""
    """Why there is no answer, as the rest of a sentence about the address; empty if there is one."""
    reached: bool = True
    """A server was queried."""


class Bye(Said, frozen=True, kw_only=True):
    """Why an agent ends or cannot do its task; in sentences."""

    reason: Word
    remedy: Word = ""
    exit_status: Annotated[int, msgspec.Meta(ge=0, le=255)] = 1


# From the front end. One srun carries each message to all of its agents, so none is addressed.


class Watch(Said, frozen=True, kw_only=True):
    """Start watching."""

    key: Word = ""
    """The key of the job, if several run; see `JobHere.key`."""
    interval: Seconds = 1.0
    stacks: Word = "auto"
    seconds: Seconds = 10.0
    """Time limit for an eager sample."""
    eager: bool = False
    """For a one-shot report: sample everything at once."""
    lease_s: Seconds = LEASE_S


class Alive(Said, frozen=True, kw_only=True):
    """The front end is there."""

    number: Number


class Ask(Said, frozen=True, kw_only=True):
    """Request a round that was not sent before."""

    number: Number
    facts: Annotated[tuple[Word, ...], msgspec.Meta(max_length=1000)] | None = None
    """The addresses of the agents whose facts are requested, the others answering briefly; `None` for all."""
    whole: bool = False
    """Send no table as `null`: earlier ones are no longer known here."""


class LookNow(Said, frozen=True, kw_only=True):
    """Sample everything in the next round."""


class AskRas(Said, frozen=True, kw_only=True):
    """Have one agent query NCCL's RAS, which answers for all processes of the job."""

    number: Number
    agent: Word
    """Its address."""
    host: Word
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


class End(Said, frozen=True, kw_only=True):
    """The agent is no longer needed."""


FromAgent = Hello | Beat | Round | RasAnswer | Bye
FromFront = Watch | Alive | Ask | AskRas | LookNow | End

M = TypeVar("M")

_encoder = msgspec.json.Encoder()


class Garbage(ValueError):
    """The received data is not mpmon's, or more than it ever sends; the message says what, as the rest of `it sends …`."""


class OtherProtocol(Garbage):
    """The other end speaks another version of the protocol."""


def fits(message: Said) -> bool:
    """Whether the receiver accepts a message of this size."""
    text = _encoder.encode(message)
    return len(text) <= MOST_UNPACKED and len(zlib.compress(text, 6)) <= MOST_PACKED


def frames(number: int, message: Said) -> Iterator[bytes]:
    """A message as lines, with a number that none of the sender's current messages shares."""
    packed = zlib.compress(_encoder.encode(message), 6)
    pieces = [packed[at : at + _PIECE] for at in range(0, len(packed), _PIECE)]
    for part, piece in enumerate(pieces):
        place = b"%d %d %d" % (number, part, len(pieces))
        data = base64.b64encode(piece)
        yield b"%s%d %s %s %s\n" % (MARK, PROTOCOL, place, _check(place, data), data)


def _check(place: bytes, data: bytes) -> bytes:
    return b"%08x" % zlib.crc32(data, zlib.crc32(place))


class Lines:
    """Splits incoming bytes into lines. An overlong line is truncated at once, without waiting for its end."""

    def __init__(self) -> None:
        self._pending = b""
        self._skips = False
        """The beginning of the current line was already returned."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The complete lines, without their line feeds, and the beginning of an overlong one."""
        *whole, rest = (self._pending + chunk).split(b"\n")
        if whole and self._skips:
            self._skips = False
            whole.pop(0)
        if self._skips:
            rest = b""
        elif len(rest) > LONGEST_FRAME:
            self._skips = True
            whole.append(rest)
            rest = b""
        self._pending = rest
        return whole


class Unpacker(Generic[M]):
    """Decodes messages from the lines of one sender, which may send anything."""

    def __init__(self, kind: UnionType) -> None:
        """`kind` is M, the union of accepted messages: `FromAgent` or `FromFront`."""
        self._decoder: msgspec.json.Decoder[M] = msgspec.json.Decoder(kind)
        self._unfinished: dict[int, list[bytes]] = {}
        self._noise = 0
        self.remarks: deque[str] = deque(maxlen=4)
        """The last lines that were noise."""

    def feed(self, lines: list[bytes]) -> list[M]:
        """The messages that are now complete.

        Raises:
            Garbage: the sender must not be read any more.
        """
        return [message for line in lines if (message := self._line(line)) is not None]

    def _line(self, line: bytes) -> M | None:
        at = line.rfind(MARK)
        found = _FRAME.match(line, at) if at >= 0 else None
        if found is None:
            self._note(line, line[at:] if at >= 0 else b"")
            return None
        protocol, number, part, of, check, data = found.groups()
        if _check(b" ".join((number, part, of)), data) != check:
            self._note(line, b"")
            return None
        if int(protocol) != PROTOCOL:
            raise OtherProtocol(_other(protocol))
        return self._piece(int(number), int(part), int(of), data)

    def _piece(self, number: int, part: int, of: int, data: bytes) -> M | None:
        if not 0 < of <= MOST_PACKED // _PIECE:
            raise Garbage(f"a message of more than {MOST_PACKED >> 20} MiB")
        try:
            piece = base64.b64decode(data, validate=True)
        except binascii.Error:
            return None
        if part == 0 and number not in self._unfinished:
            while len(self._unfinished) >= MOST_UNFINISHED:
                self._unfinished.pop(next(iter(self._unfinished)))
            self._unfinished[number] = []
        pieces = self._unfinished.get(number)
        if pieces is None or part < len(pieces):  # repeated, or its beginning was lost
            return None
        if part > len(pieces):  # one was lost
            del self._unfinished[number]
            return None
        pieces.append(piece)
        if len(pieces) < of:
            return None
        del self._unfinished[number]
        return self._message(b"".join(pieces))

    def _message(self, packed: bytes) -> M:
        unpacking = zlib.decompressobj()
        try:
            text = unpacking.decompress(packed, MOST_UNPACKED)
            if not unpacking.unconsumed_tail:
                return self._decoder.decode(text)
        except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise Garbage(f"a message that cannot be read ({str(problem)[:LONGEST_REMARK]})") from problem
        raise Garbage(f"a message of more than {MOST_UNPACKED >> 20} MiB")

    def _note(self, line: bytes, marked: bytes) -> None:
        if (other := _OTHER.match(marked)) and int(other[1]) != PROTOCOL:
            raise OtherProtocol(_other(other[1]))
        self._noise += len(line) + 1
        if words := line[:LONGEST_REMARK].decode("utf-8", "replace").strip():
            self.remarks.append(words)
        if self._noise > MOST_NOISE:
            raise Garbage(f"more than {MOST_NOISE >> 20} MiB of something else")


def _other(protocol: bytes) -> str:
    return f"version {int(protocol)} of mpmon's protocol, and this mpmon speaks version {PROTOCOL}"


class Clocks:
    """How far the clock of another machine is ahead of ours.

    Its time was read between our query and its answer, so it is assigned to the middle, give or take half of the round
    trip. The quickest of the last exchanges is the most exact. An offset is kept until there is a better one: changing
    it renews all moments corrected by it.
    """

    KEPT = 8

    TREMBLE_S = 0.02
    """Changes below this are ignored."""

    def __init__(self) -> None:
        self._exchanges: deque[tuple[float, float]] = deque(maxlen=self.KEPT)
        """The round-trip time, and the offset it gives."""
        self.offset_s: float | None = None
        """Theirs minus ours; `None` before the first exchange."""

    def add(self, asked: float, theirs: float, answered: float) -> None:
        """Add one exchange, by our clock, theirs, and ours again; seconds."""
        self._exchanges.append((answered - asked, theirs - (asked + answered) / 2))
        took, offset_s = min(self._exchanges)
        if self.offset_s is None or abs(offset_s - self.offset_s) > max(took / 2, self.TREMBLE_S):
            self.offset_s = offset_s
