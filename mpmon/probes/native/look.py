"""One look at the threads of one process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from mpmon.model import NativeFrame, NativeStack
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.maps import layout
from mpmon.probes.memory import Memory
from mpmon.probes.native.climb import Climb, Climber, Step
from mpmon.probes.native.effort import Effort
from mpmon.probes.native.image import Library
from mpmon.probes.native.machines import machine_of
from mpmon.probes.native.names import names_of
from mpmon.probes.native.outcomes import BOUNDED, FRAME_POINTER, MOVED, REFUSED, RUNNING, SEARCH, START
from mpmon.probes.native.samples import NEVER_IN_USER_CODE, OTHER_MACHINE, NotSampled, samples
from mpmon.probes.native.space import Code, Space
from mpmon.probes.native.standing import Counters, NotStanding, standing

MOST_THREADS = 256
"""Most threads of one process."""

ATTEMPTS = 2
"""How often a thread that ran meanwhile is read."""


@may_hang
def native_stacks(proc: Proc, pid: int, tids: Sequence[int], now: float) -> tuple[NativeStack, ...]:
    """The C and C++ frames of these threads of a process, one row for each.

    Raises:
        OSError: the process is gone, or its memory cannot be read.
    """
    machine = machine_of()
    if machine is None:
        why = "mpmon does not understand the code of this kind of processor"
        return tuple(NativeStack(pid=pid, tid=tid, taken_at=now, end=REFUSED, why=why) for tid in tids)
    with Memory(proc, pid) as memory, Space(proc, pid, memory, layout(proc, pid), machine) as space:
        return _Look(proc, pid, space, now).rows(tids)


@may_hang
def native_samples(proc: Proc, pid: int, tids: Sequence[int], now: float) -> tuple[NativeStack, ...]:
    """As `native_stacks`, for running threads, each at one moment; a thread that does not run meanwhile has no frames.

    Raises:
        OSError: the process is gone, or its memory cannot be read.
    """
    machine = machine_of()
    if machine is None or not machine.is_sampled:
        return tuple(NativeStack(pid=pid, tid=tid, taken_at=now, end=RUNNING, why=OTHER_MACHINE) for tid in tids)
    with Memory(proc, pid) as memory, Space(proc, pid, memory, layout(proc, pid), machine) as space:
        return _Look(proc, pid, space, now).moments(tids)


class _Look:
    def __init__(self, proc: Proc, pid: int, space: Space, now: float) -> None:
        self._proc, self._pid, self._now = proc, pid, now
        self._space = space
        self._climber = Climber(space, Effort())

    def rows(self, tids: Sequence[int]) -> tuple[NativeStack, ...]:
        """All stacks first, since they may change; then their names."""
        climbs: list[tuple[int, Climb, float]] = []
        for number, tid in enumerate(tids):
            began = time.perf_counter()
            climb = (
                self._climb(tid) if number < MOST_THREADS else Climb((), BOUNDED, f"more than {MOST_THREADS} threads")
            )
            climbs.append((tid, climb, time.perf_counter() - began))
        return self._rows(climbs)

    def moments(self, tids: Sequence[int]) -> tuple[NativeStack, ...]:
        """The samples of all threads at once, since waiting for them takes the longest."""
        try:
            found = samples(self._pid, tids)
        except NotSampled as problem:
            return self._rows([(tid, Climb((), RUNNING, problem.why), 0.0) for tid in tids])
        climbs: list[tuple[int, Climb, float]] = []
        for tid in tids:
            began = time.perf_counter()
            moments = [self._climber.climb_sample(sample) for sample in found.get(tid, ())]
            climb = min(moments, key=_doubt) if moments else Climb((), RUNNING, NEVER_IN_USER_CODE)
            climbs.append((tid, climb, time.perf_counter() - began))
        return self._rows(climbs)

    def _rows(self, climbs: Sequence[tuple[int, Climb, float]]) -> tuple[NativeStack, ...]:
        names = _Names(self._space, (step for _, climb, _ in climbs for step in climb.steps))
        return tuple(
            NativeStack(
                pid=self._pid, tid=tid, taken_at=self._now, frames=tuple(map(names.frame, climb.steps)),
                end=climb.end, why=climb.why, seconds=seconds,
            )
            for tid, climb, seconds in climbs
        )  # fmt: skip

    def _climb(self, tid: int) -> Climb:
        """Frames of one moment: the thread did not run from before the first read until after the last."""
        try:
            with Counters(self._proc, self._pid, tid) as counters:
                for _ in range(ATTEMPTS):
                    before = counters.now()
                    found = self._climber.climb(standing(self._proc, self._pid, tid))
                    if counters.now() == before:
                        return found
        except NotStanding as problem:
            return Climb((), problem.end, problem.why)
        return Climb((), MOVED)


def _doubt(climb: Climb) -> tuple[bool, int, int]:
    """Sort key of a thread's samples, the most informative first: among complete stacks the one with the fewest frames, since
    the functions that a loop calls in passing come and go.
    """
    searched = sum(step.how in (SEARCH, FRAME_POINTER) for step in climb.steps)
    return climb.end != START, searched, len(climb.steps)


class _Names:
    """The names of the frames of one look."""

    def __init__(self, space: Space, steps: Iterable[Step]) -> None:
        self._space = space
        self._codes: dict[tuple[int, bool], tuple[Code | None, int | None]] = {}
        """By frame: its code, and where its function begins, in the file's own addresses."""
        wanted: dict[Library, set[int]] = {}
        for step in steps:
            code, start = self._place(step)
            if code and code.library and start is not None:
                wanted.setdefault(code.library, set()).add(start)
        found: set[str] = set()
        for library, starts in wanted.items():
            library.find_names(starts)
            found.update(name for start in starts if (name := library.image.names.get(start)))
        self._short = names_of(found)

    def _place(self, step: Step) -> tuple[Code | None, int | None]:
        key = step.program_counter, step.exact
        if key not in self._codes:
            code = self._space.code(step.program_counter)
            self._codes[key] = code, self._start(code, step)
        return self._codes[key]

    @staticmethod
    def _start(code: Code | None, step: Step) -> int | None:
        if code is None or code.library is None:
            return None
        at = step.program_counter - code.bias - (not step.exact)
        rules = code.library.rules(at)
        if rules is None and not step.exact:
            # The trampoline of a signal.
            rules = code.library.rules(at + 1)
            rules = rules if rules and rules.function.is_signal else None
        if rules:
            return rules.function.start
        extent = code.library.extent(at)
        return extent[0] if extent else None

    def frame(self, step: Step) -> NativeFrame:
        """The row of one frame."""
        code, start = self._place(step)
        if code is None or code.library is None:
            path = code.area.path if code else ""
            return NativeFrame(library=path or None, offset=step.program_counter, how=step.how, proof=step.proof)
        offset = step.program_counter - code.bias
        function = code.library.image.names.get(start) if start is not None else None
        return NativeFrame(
            library=code.area.path, build_id=code.library.image.build_id, offset=offset,
            function=function, name=self._short.get(function, function) if function else None,
            inside=None if start is None else offset - start, how=step.how, proof=step.proof,
        )  # fmt: skip
