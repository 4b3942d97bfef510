"""All threads of an interpreter and their frames, in a few system calls: each reads what all threads need next.

First the interpreters, then all thread states, then the innermost frame of each thread, and so on outwards, for all
threads at once. From 3.11 on the frames of a thread lie side by side in chunks of memory, and the newest chunk is read
as a whole; a frame elsewhere is read with the preceding part of its page, which may hold more of them. Of an endless
recursion the innermost frames are followed: as many at the next look, so that it shows whether the thread has moved.

A frame may be gone or replaced a moment later; walking twice with the same result is more certain (`same`). A generator
that was just left no longer leads outwards, nor does any such frame in 3.10: a frame without a caller need not be the
end.

Sources: Include/cpython/pystate.h, Include/internal/pycore_interp.h, pycore_gil.h, pycore_frame.h of CPython 3.10 to 3.14.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from mpmon.probes.interpreter.objects import TAGS
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.runtime import Runtime
from mpmon.probes.interpreter.tids import TID_AT
from mpmon.probes.memory import Memory

MOST_INTERPRETERS = 64
MOST_THREADS = 4096
MOST_FRAMES = 1 << 15
"""Most frames of one thread; py-spy follows 4096."""

MOST_LINKS = 1 << 16
"""Most frames of one process."""

MOST_VARIABLES = 24
"""Variables read with a frame; further ones are read separately."""

LARGEST_CHUNK = 1 << 16
"""Most bytes read of a chunk; DATA_STACK_CHUNK_SIZE is 16 KiB (Python/pystate.c)."""

LARGEST_STATE = 1024
"""Most bytes of a PyThreadState, including `root_cframe` in versions that have it; it has 352 in 3.11 (sizeof)."""

PAGE = 4096

IN_CALL = (0, 2)
"""FRAME_EXECUTING and FRAME_UNWINDING of 3.10, Include/internal/pycore_frame.h."""

BY_GENERATOR = 1
"""FRAME_OWNED_BY_GENERATOR, pycore_frame.h."""

_word = struct.Struct("=Q").unpack_from
_half = struct.Struct("=i").unpack_from


class Link(NamedTuple):
    """One frame."""

    address: int
    code: int
    """The address of its code object."""
    instruction: int
    """Its current instruction: an address; in 3.10 an index."""
    text: bytes
    """The bytes of the frame, with its first variables."""
    is_entry: bool = False
    """The interpreter's loop in C was entered with this frame."""


class PythonThread:
    """One PyThreadState, with its frames once they were followed."""

    def __init__(self, address: int, state: bytes, ident: int, native_id: int) -> None:
        self.address = address
        self.state = state
        """The bytes of the structure, as far as needed; empty if unreadable."""
        self.ident = ident
        self.native_id = native_id
        """The kernel's id in the process's own pid namespace; 0 if unknown."""
        self.owns_gil = False
        self.links: list[Link] = []
        """Innermost first, without frames that belong to C code."""
        self.is_whole = True
        """The frames were followed to the end, or to the limit."""
        self.is_cut = False
        """There are more frames: these are the innermost ones."""

    def same(self, other: PythonThread) -> bool:
        """Whether both readings found the same calls, of which only the innermost may be at another instruction."""
        if not (self.is_whole and other.is_whole) or (self.ident, len(self.links)) != (other.ident, len(other.links)):
            return False
        return all(
            a[:2] == b[:2] and (not depth or a.instruction == b.instruction)
            for depth, (a, b) in enumerate(zip(self.links, other.links, strict=True))
        )


class _Block(NamedTuple):
    """A piece of memory that was read."""

    start: int
    text: bytes


class _Chain:
    """The current position of the walk along one thread's frames."""

    def __init__(self, thread: PythonThread) -> None:
        self.thread = thread
        self.address = 0
        """Of the next frame; 0 at the end."""
        self.chunk = _Block(0, b"")
        self.seen: set[int] = set()

    def break_off(self) -> None:
        self.thread.is_whole = False
        self.address = 0


class Walk:
    """Walks through one process, each of which reads everything anew."""

    def __init__(self, memory: Memory, runtime: Runtime) -> None:
        self._memory = memory
        self.runtime = runtime
        layout = self._layout = runtime.layout
        native = layout.native_id or 0
        following = layout.next_thread
        self._state_size = 8 + max(
            layout.ident, native, layout.frame, layout.interpreter, following, (layout.datastack or 0) + 8
        )
        fields = (layout.code, layout.previous, layout.instruction, layout.owner or 0, layout.generator or 0)
        self._shortest = max(layout.local_variables, *(at + 8 for at in fields))
        self._longest = self._shortest + 8 * MOST_VARIABLES
        self._blocks: dict[int, bytes] = {}
        """Parts of pages, by address."""
        self._links = 0

    def threads(self, known: Collection[int] = ()) -> list[PythonThread]:
        """All threads, youngest first. `known` are the addresses of thread states found before.

        Raises:
            Torn: the list of threads cannot be followed.
        """
        heads, owners, states = self._interpreters(known)
        found: list[PythonThread] = []
        while heads:
            missing = [address for address in heads.values() if address not in states]
            states.update(zip(missing, self._memory.pieces([(it, self._state_size) for it in missing]), strict=True))
            for interpreter, address in list(heads.items()):
                text = states.pop(address, b"")
                if not text or len(found) >= MOST_THREADS or _word(text, self._layout.interpreter)[0] != interpreter:
                    raise Torn
                thread = self._thread(address, text)
                thread.owns_gil = address in owners
                found.append(thread)
                heads[interpreter] = _word(text, self._layout.next_thread)[0]
                if not heads[interpreter]:
                    del heads[interpreter]
        self._note_native_ids(found)
        return found

    def follow(self, threads: Sequence[PythonThread]) -> None:
        """Find the frames of these threads."""
        self._blocks.clear()
        chains = [_Chain(thread) for thread in threads]
        self._begin(chains)
        waiting = [chain for chain in chains if self._needs_more(chain)]
        while waiting:
            self._read(waiting)
            waiting = [chain for chain in waiting if self._needs_more(chain)]

    def again(self, threads: Sequence[PythonThread]) -> list[PythonThread]:
        """The same threads as they are now; a thread that has ended meanwhile is not whole."""
        texts = self._memory.pieces([(thread.address, self._state_size) for thread in threads])
        now: list[PythonThread] = []
        for thread, text in zip(threads, texts, strict=True):
            now.append(self._thread(thread.address, text))
            now[-1].native_id, now[-1].owns_gil = thread.native_id, thread.owns_gil
        self.follow(now)
        return now

    # Interpreters and thread states

    def _interpreters(self, known: Collection[int]) -> tuple[dict[int, int], set[int], dict[int, bytes]]:
        """The first thread of each interpreter, the threads that own a GIL, and the states at the known addresses."""
        layout, runtime = self._layout, self.runtime.address
        (address,) = self._words([runtime + layout.interpreters])
        heads: dict[int, int] = {}
        locks: set[int] = set() if layout.version >= (3, 12) else {runtime + layout.gil}
        while address:
            if address in heads or len(heads) >= MOST_INTERPRETERS:
                raise Torn
            following, heads[address], lock = self._words(
                [address + layout.next_interpreter, address + layout.threads, address + layout.gil]
            )
            locks |= {lock} if layout.version >= (3, 12) else set()
            address = following
        pieces = [(lock + at - layout.gil_state, 8) for lock in locks for at in (layout.gil_holder, layout.gil_locked)]
        pieces += [(state, self._state_size) for state in known]
        texts = self._memory.pieces(pieces)
        states = {state: text for state, text in zip(known, texts[2 * len(locks) :], strict=True) if text}
        owners = {
            _word(holder)[0]
            for holder, locked in zip(texts[: 2 * len(locks) : 2], texts[1 : 2 * len(locks) : 2], strict=True)
            if holder and locked and _half(locked)[0] == 1
        }
        return {interpreter: head for interpreter, head in heads.items() if head}, owners, states

    def _words(self, addresses: Sequence[int]) -> list[int]:
        texts = self._memory.pieces([(address, 8) for address in addresses])
        if not all(texts):
            raise Torn
        return [_word(text)[0] for text in texts]

    def _thread(self, address: int, text: bytes) -> PythonThread:
        ident, native = self._layout.ident, self._layout.native_id
        if not text:
            return PythonThread(address, text, 0, 0)
        return PythonThread(address, text, _word(text, ident)[0], _word(text, native)[0] if native else 0)

    def _note_native_ids(self, threads: Sequence[PythonThread]) -> None:
        """Before 3.11 only the C library has the native ids: see `tids`."""
        if self._layout.native_id is not None or TID_AT is None:
            return
        texts = self._memory.pieces([(thread.ident + TID_AT, 4) for thread in threads])
        for thread, text in zip(threads, texts, strict=True):
            thread.native_id = _half(text)[0] if text else 0

    # Frames

    def _begin(self, chains: Sequence[_Chain]) -> None:
        """Find the innermost frame of each thread, and the chunk it may lie in."""
        layout = self._layout
        through: list[_Chain] = []
        pieces: list[tuple[int, int]] = []
        for chain in chains:
            text = chain.thread.state
            if not text:
                chain.break_off()
                continue
            (chain.address,) = _word(text, layout.frame)
            if layout.datastack is not None:
                (start,), (end,) = _word(text, layout.datastack), _word(text, layout.datastack + 8)
                through.append(chain)
                pieces.append((start, end - start if start < end <= start + LARGEST_CHUNK else 0))
        if layout.frame_through is not None:
            pieces += [(chain.address + layout.frame_through if chain.address else 0, 8) for chain in through]
        texts = self._memory.pieces(pieces) if pieces else []
        for chain, (start, _), text in zip(through, pieces, texts, strict=False):
            chain.chunk = _Block(start, text)
        if layout.frame_through is not None:
            for chain, text in zip(through, texts[len(through) :], strict=True):
                through_state = 0 <= chain.address - chain.thread.address < LARGEST_STATE
                (frame,) = _word(text) if text else (0,)
                if chain.address and not frame and not through_state:
                    # The `_PyCFrame` of a call lies on the C stack, and leads to a frame until the call is over.
                    chain.break_off()
                chain.address = frame

    def _needs_more(self, chain: _Chain) -> bool:
        """Go outwards through the frames at hand; returns whether more have to be read."""
        layout = self._layout
        while chain.address:
            text = self._at_hand(chain)
            if text is None:
                return True
            address = chain.address
            if address in chain.seen:
                chain.break_off()
                return False
            if len(chain.seen) >= MOST_FRAMES or self._links >= MOST_LINKS:
                chain.thread.is_cut, chain.address = True, 0
                return False
            chain.seen.add(address)
            self._links += 1
            (chain.address,) = _word(text, layout.previous)
            if not chain.address and (self._is_generators(text) or self._is_left(text)):
                # It has a caller, so these are not all frames.
                chain.break_off()
            if layout.owner is None or text[layout.owner] < layout.shim:
                code = _word(text, layout.code)[0] & ~TAGS
                step = _word if layout.blocks is None else _half
                entered = layout.owner is None and (layout.entry is None or text[layout.entry] != 0)
                chain.thread.links.append(Link(address, code, step(text, layout.instruction)[0], text, entered))
            elif chain.thread.links:
                # This frame belongs to the C code that entered the loop with the previous frame.
                chain.thread.links[-1] = chain.thread.links[-1]._replace(is_entry=True)
        return False

    def _is_generators(self, text: bytes) -> bool:
        layout = self._layout
        if layout.blocks is not None and layout.generator is not None:
            return _word(text, layout.generator)[0] != 0
        return text[layout.owner or layout.generator or 0] == BY_GENERATOR

    def _is_left(self, text: bytes) -> bool:
        """Whether its call is over or has not begun: in 3.10 it leads to no other frame, or to one kept for reuse."""
        return self._layout.blocks is not None and text[self._layout.blocks - 4] not in IN_CALL

    def _at_hand(self, chain: _Chain) -> bytes | None:
        address = chain.address
        for start, text in (chain.chunk, (address & -PAGE, self._blocks.get(address & -PAGE, b""))):
            at = address - start
            if 0 <= at <= len(text) - self._shortest:
                return text[at : at + self._longest]
        return None

    def _read(self, chains: Iterable[_Chain]) -> None:
        """Read the pages in which the next frames begin, as far as needed."""
        ends: dict[int, int] = {}
        for chain in chains:
            page = chain.address & -PAGE
            ends[page] = max(ends.get(page, 0), chain.address + self._longest)
        texts = self._memory.pieces([(page, end - page) for page, end in ends.items()])
        self._blocks.update(zip(ends, texts, strict=True))
        for chain in chains:
            if self._at_hand(chain) is None:
                self._read_alone(chain)

    def _read_alone(self, chain: _Chain) -> None:
        """Read without variables: the memory may end just after the frame."""
        page = chain.address & -PAGE
        self._blocks[page] = self._memory.pieces([(page, chain.address - page + self._shortest)])[0]
        if self._at_hand(chain) is None:
            chain.break_off()
