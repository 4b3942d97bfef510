"""The threads of one process, with their calls, as they were at one moment: what every question about locks, results and loops
starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mpmon.probes.interpreter.blocks import Blocks
from mpmon.probes.interpreter.frames import FrameInMemory, Frames
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.runtime import Runtime
from mpmon.probes.interpreter.tids import Tids
from mpmon.probes.interpreter.walk import PythonThread
from mpmon.probes.memory import Memory

TORN = "frames of a running thread could not be followed"

Note = Callable[[int, list[FrameInMemory]], None]


class Inside:
    """One walk through all threads of one process."""

    def __init__(self, memory: Memory, runtime: Runtime, tids: Tids, sleepers: Mapping[int, str]) -> None:
        self.runtime = runtime
        self.layout = runtime.layout
        self.objects = Objects(memory, runtime.layout)
        self.blocks = Blocks(memory, self.objects, self.layout)
        self.pid = tids.pid
        self.sleepers = sleepers
        """The threads that wait in a private futex, with the id of the word they sleep on."""
        self.by_ident: dict[int, int] = {}
        """Threads by the ident that Python gave them."""
        self.stacks: dict[int, list[FrameInMemory]] = {}
        """The calls of each thread, innermost first; empty if they could not be followed."""
        self.problem = ""
        """Why something is missing."""
        self._frames = Frames(memory, self.objects, runtime)
        self._tids = tids

    def read(self) -> None:
        """Find the threads and their calls; none if `problem` says why."""
        try:
            threads = self._frames.threads()
        except Torn:
            self.problem = "the list of Python threads could not be followed"
            return
        known = [(thread, tid) for thread in threads if (tid := self._tids.of(thread.native_id))]
        if not known:
            self.problem = "no Python thread of the interpreter is a thread of the process"
            return
        self.by_ident = {thread.ident: tid for thread, tid in known}
        self.stacks = {tid: self._stack(thread) for thread, tid in known}

    def _stack(self, thread: PythonThread) -> list[FrameInMemory]:
        try:
            return list(self._frames.of(thread))
        except Torn as reason:
            self.problem = str(reason) or TORN
            return []

    def attempt(self, note: Note, tid: int) -> None:
        """Let `note` look at the calls of a thread; if these cannot be followed, `problem` says so."""
        try:
            note(tid, self.stacks.get(tid, []))
        except Torn as reason:
            self.problem = str(reason) or TORN
