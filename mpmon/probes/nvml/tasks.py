"""Tasks run one after the other in a thread, until a call does not return: then that thread and that task are abandoned.

An abandoned thread ends when its task finishes, which may be never; after that the task can be run again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue

from mpmon.probes.nvml.calls import Caller, Functions


class Task:
    """Work that makes calls into the driver."""

    def __init__(self, run: Callable[[Caller], None], deadline_s: float) -> None:
        self.run = run
        self.deadline_s = deadline_s
        """How long one call may take."""
        self.stuck: Stuck | None = None


class Stuck:
    """A call of a task that has not returned."""

    def __init__(self, call: Caller) -> None:
        self._call = call

    @property
    def name(self) -> str:
        """Name of the call."""
        return self._call.call

    @property
    def since(self) -> float:
        """When the call began, seconds since the epoch."""
        return self._call.since


class TaskRunner:
    """Runs tasks, one after the other."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._worker: _Worker | None = None

    def run(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Run the tasks that are not stuck; yields each that gets stuck, and continues with the next."""
        left = [task for task in tasks if task.stuck is None]
        while left:
            worker = self._worker or _Worker(self._functions)
            self._worker = None
            stuck = worker.do(left)
            if stuck is None:
                self._worker = worker
                return
            left = left[left.index(stuck) + 1 :]
            yield stuck


class _Worker:
    """One thread."""

    def __init__(self, functions: Functions) -> None:
        self._call = Caller(functions)
        self._tasks: SimpleQueue[Sequence[Task]] = SimpleQueue()
        self._done: SimpleQueue[Exception | None] = SimpleQueue()
        self._turn = threading.Lock()
        self._present: Task | None = None
        self._left_behind = False
        threading.Thread(target=self._work, name="nvml", daemon=True).start()

    def do(self, tasks: Sequence[Task]) -> Task | None:
        """Run these; returns the task that got stuck, with which this worker is abandoned.

        Raises:
            Exception: what a task raised.
        """
        self._tasks.put(tasks)
        patience = tasks[0].deadline_s
        while True:
            try:
                defect = self._done.get(timeout=patience)
            except Empty:
                stuck, patience = self._leave()
                if stuck:
                    return stuck
                continue
            if defect is not None:
                raise defect
            return None

    def _leave(self) -> tuple[Task | None, float]:
        """The task whose call took too long; else how long the current call may still take."""
        with self._turn:
            task = self._present
            if task is None:
                return None, 0.01
            left_s = task.deadline_s - self._call.waited_s
            if left_s > 0:
                return None, left_s
            self._left_behind = True
            task.stuck = Stuck(self._call)
            return task, 0.0

    def _work(self) -> None:
        while True:
            for task in self._tasks.get():
                defect = self._run_one(task)
                if self._left_behind:
                    return
                if defect is not None:
                    self._done.put(defect)
                    return
            self._done.put(None)

    def _run_one(self, task: Task) -> Exception | None:
        with self._turn:
            self._present = task
        try:
            task.run(self._call)
        except Exception as defect:
            return defect
        finally:
            with self._turn:
                self._present = task.stuck = None
        return None
