"""Which thread has to act for a thread that waits for another thread's end, or for a result, as rows."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from mpmon.model import JoinTarget
from mpmon.probes.interpreter.chained import sources
from mpmon.probes.interpreter.contents import is_standard
from mpmon.probes.interpreter.executors import futures_in, has_tasks
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.groups import group_at_hand
from mpmon.probes.interpreter.inside import Inside
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.scheduled import about_to_begin, loop_of

WAITS_FOR_WORK = frozenset({"wait", "synchronize"})
"""The methods of `torch.distributed.Work` and of its futures that wait (torch/csrc/distributed/c10d/Work.hpp)."""


class Results:
    """Rows of the threads that sleeping threads of a process wait for."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self.rows: list[JoinTarget] = []
        self._running: dict[int, int] = {}
        """Futures by address, with the thread that runs the task of each."""
        self._loops: dict[int, int] = {}
        """Event loops by address, with the thread that each runs in."""
        self._scheduled: dict[int, int] | None = None
        """Futures of coroutines that are about to begin, with the thread of the loop of each."""
        self._executors: dict[int, list[int]] = {}
        """Threads of executors, by the address of the queue they take tasks from."""
        self._queued: dict[int, frozenset[int]] = {}
        """Futures of the tasks in these queues, read once a thread is found waiting for a future."""

    def read(self) -> None:
        """Fill the rows: first what each thread works at, then what the sleeping ones wait for."""
        for tid in self._inside.stacks:
            self._inside.attempt(self._note_task, tid)
        for tid in self._inside.stacks:
            if tid in self._inside.sleepers:
                self._inside.attempt(self._note_awaited, tid)
        self._note_full_executors()

    def _note_task(self, tid: int, frames: list[FrameInMemory]) -> None:
        """Note the executor of this thread and the future it works for, from the frames of `_worker` and
        `_WorkItem.run` (concurrent/futures/thread.py), and the event loop that it is in.
        """
        for frame in frames:
            if frame.code.name == "run_forever" and frame.code.file.endswith("asyncio/base_events.py"):
                self._loops[frame.argument(0)] = tid
            if not frame.code.file.endswith("concurrent/futures/thread.py"):
                continue
            if frame.code.name == "_worker" and (queue := frame.local("work_queue")):
                self._executors.setdefault(queue, []).append(tid)
            if frame.code.name == "run":
                item = frame.argument(0)
                future = self._inside.objects.attribute(item, b"future") if item else None
                if future:
                    self._running[future] = tid

    def _note_awaited(self, tid: int, frames: list[FrameInMemory]) -> None:
        pid = self._inside.pid
        if frames and not is_standard(frames[0].code.file) and frames[0].names & WAITS_FOR_WORK:
            group = group_at_hand(self._inside.objects, frames[0])
            row = JoinTarget(pid=pid, tid=tid, kind="work")
            self.rows.append(msgspec.structs.replace(row, group=group.name, members=group.members) if group else row)
            return
        for frame in frames:
            name, file = frame.code.name, frame.code.file
            if name == "join" and file.endswith("/threading.py"):
                self.rows.append(JoinTarget(pid=pid, tid=tid, kind="thread", by_tid=self._joined(frame)))
                return
            if name in ("result", "exception") and file.endswith("concurrent/futures/_base.py"):
                self.rows.append(self._future(tid, frame.argument(0)))
                return
            if not file.endswith(("/threading.py", "concurrent/futures/_base.py")):
                return

    def _joined(self, frame: FrameInMemory) -> int | None:
        objects, thread = self._inside.objects, frame.argument(0)
        ident = objects.attribute(thread, b"_ident") if thread else None
        if not ident or objects.kind(ident) != b"int":
            return None
        return self._inside.by_ident.get(objects.integer(ident))

    def _future(self, tid: int, future: int) -> JoinTarget:
        """The thread that runs a future's task, or the threads whose queue holds it: the task of this future, or of one
        that its result comes from; else the thread whose event loop has to run for it. Raises `Torn`.
        """
        objects, row = self._inside.objects, JoinTarget(pid=self._inside.pid, tid=tid, kind="future")
        chain = list(sources(objects, self._inside.layout, future)) if future else []
        for one in chain:
            runs = self._running.get(one)
            queued_for = () if runs else self._queued_for(one)
            if runs or queued_for:
                return msgspec.structs.replace(row, by_tid=runs, queued_for=queued_for)
        return msgspec.structs.replace(row, by_tid=loop_of(objects, chain, self._loops, self._due))

    @property
    def _due(self) -> dict[int, int]:
        """Read once a thread is found waiting for a future. Raises `Torn`."""
        if self._scheduled is None:
            self._scheduled = {}
            for loop, tid in self._loops.items():
                self._scheduled |= dict.fromkeys(about_to_begin(self._inside.objects, loop), tid)
        return self._scheduled

    def _note_full_executors(self) -> None:
        """Note the sleeping threads of executors whose threads are all in tasks while others wait in the queue."""
        busy, noted = set(self._running.values()), {row.tid for row in self.rows}
        for queue, tids in self._executors.items():
            waiting = [tid for tid in tids if tid in self._inside.sleepers and tid not in noted]
            if waiting and busy.issuperset(tids) and self._is_queued(queue):
                threads = tuple(sorted(tids))
                rows = (JoinTarget(pid=self._inside.pid, tid=tid, kind="task", queued_for=threads) for tid in waiting)
                self.rows.extend(rows)

    def _is_queued(self, queue: int) -> bool:
        """Tasks wait in this queue of an executor; `False` where that cannot be read."""
        with suppress(Torn):
            return not self._inside.problem and has_tasks(self._inside.objects, self._inside.layout, queue)
        return False

    def _queued_for(self, future: int) -> tuple[int, ...]:
        """The threads of the executor whose queue holds a future's task; none if some threads could not be read, as one
        of these may belong to it. Raises `Torn`.
        """
        if self._inside.problem:
            return ()
        for queue, tids in self._executors.items():
            if queue not in self._queued:
                self._queued[queue] = futures_in(self._inside.objects, self._inside.layout, queue)
            if future in self._queued[queue]:
                return tuple(sorted(tids))
        return ()
