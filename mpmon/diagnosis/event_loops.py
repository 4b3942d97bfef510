"""The event loops of a job: the tasks in each, which of them are stuck, and who at the ends of its connections could help.

Which tasks are stuck among those of one loop is judged in `loops`; here is what surrounds them: the thread, its process.
"""

from __future__ import annotations

from functools import cached_property

from mpmon.diagnosis.loops import READY, REQUESTS, SLEEP, held_up, known_as_awaiting, resting, stuck, user_frame
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, Wait, has_no_limit
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject, Task


class EventLoops:
    """Made once for a job: `job.of(EventLoops)`."""

    def __init__(self, job: JobState) -> None:
        self._job = job
        self._stuck_tasks: dict[ThreadKey, tuple[Task, ...]] = {}

    @cached_property
    def tasks(self) -> dict[ThreadKey, tuple[Task, ...]]:
        """The tasks of event loops, by the threads they run in."""
        found: dict[ThreadKey, list[Task]] = {}
        for row in self._job.snapshot.tasks:
            found.setdefault((row.pid, row.tid), []).append(known_as_awaiting(row))
        return {key: tuple(rows) for key, rows in found.items()}

    @cached_property
    def _half_known(self) -> frozenset[int]:
        """Processes with some tasks that could not be read."""
        return frozenset(row.pid for row in self._job.snapshot.unknowns if row.table == "tasks")

    def stuck(self, key: ThreadKey) -> tuple[Task, ...]:
        """The stuck tasks of the event loop that a thread rests in, if nothing else is left in the loop; see `loops`."""
        if key not in self.tasks:
            return ()
        if key not in self._stuck_tasks:
            self._stuck_tasks[key] = self._find_stuck(key)
        return self._stuck_tasks[key]

    def known(self, key: ThreadKey) -> tuple[Task, ...]:
        """All tasks of the event loop that a thread rests in; none if some could not be read."""
        return () if key[0] in self._half_known else self.tasks.get(key, ())

    def _find_stuck(self, key: ThreadKey) -> tuple[Task, ...]:
        tasks = self.known(key)
        if not tasks or self._job.wait_state(key).kind is not Wait.EVENT_LOOP:
            return ()
        ready = tuple(row for row in tasks if row.waits == READY)
        if ready and self._job.motion(key) is Motion.NOT_SCHEDULED:
            return ready
        children = frozenset(pid for pid in self._job.clients.get(key[0], ()) if self._job.is_alive(pid))
        partners = bool(self.partners(key))
        handlers = self._job.processes[key[0]].catches_term or self._job.may_be_called(key[0])
        # An end that a task awaits goes on in that task.
        awaited = {row.child for row in tasks}
        others = (child for child in children if child not in awaited and not self._reads_in_vain(child))
        told_of_ends = any(others) and self._is_told_of_ends(key)
        alone = not (
            (not partners and self._is_connected(key)) or told_of_ends or handlers or self._job.others_at_work(key)
        )
        untimed = not handlers and has_no_limit(self._job.blocked.get(key))
        return stuck(tasks, alone=alone, children=children, partners=partners, untimed=untimed)

    def resting(self, key: ThreadKey) -> tuple[Task, ...]:
        """The tasks of the event loop that a thread rests in, if none goes on by itself, see `loops.resting`, and neither a
        signal nor anything that comes over a connection can start something.
        """
        pid = key[0]
        may_be_called = self._job.processes[pid].catches_term or self._job.may_be_called(pid)
        hears = self._is_connected(key) or any(item.listens for item in self._job.waits_on(key))
        # A library's native threads may be in a loop that watches connections, and wake this one.
        hears = hears or bool(self._job.natives_at_work(pid)) or bool(self._job.native_loops(pid))
        if self._job.wait_state(key).kind is not Wait.EVENT_LOOP or may_be_called or hears:
            return ()
        return resting(self.known(key))

    def _reads_in_vain(self, pid: int) -> bool:
        """The process stands still until it is sent something, so it does not end."""
        main = (pid, pid)
        return self._job.wait_state(main).kind in COMES_BY_READING and self._job.motion(main) is Motion.NOT_SCHEDULED

    def _is_told_of_ends(self, key: ThreadKey) -> bool:
        """An event loop learns of the ends of children: by a descriptor of one, or from a thread that waits for them."""
        calls = (self._job.blocked.get(other) for other in self._job.threads(key[0]))
        return any(item.kind == "process" for item in self._job.waits_on(key)) or any(
            blocked is not None and blocked.syscall in ("wait4", "waitid") for blocked in calls
        )

    def partners(self, key: ThreadKey) -> tuple[KernelObject, ...]:
        """The objects an event loop watches besides its own wake-up socket, if each leads only to processes of the job, or
        signals the end of one; else none.
        """
        items = self._watched(key)
        return items if items and all(self._is_among_us(item, key[0]) for item in items) else ()

    def held_up(self, key: ThreadKey) -> tuple[Task, ...]:
        """The tasks of a server's loop that work on requests, if all of these wait for their own clients, processes of the job,
        whatever else ticks in the loop or may come from others; none for any other loop.
        """
        rests = self._job.wait_state(key).kind is Wait.EVENT_LOOP and not self._job.others_at_work(key)
        tasks = held_up(self.known(key)) if rests else ()
        return tasks if tasks and self.clients(key) else ()

    def clients(self, key: ThreadKey) -> tuple[KernelObject, ...]:
        """The connections an event loop watches, besides a socket that accepts more, if each leads only to processes of the job;
        else none.
        """
        items = [item for item in self._watched(key) or () if not item.listens]
        return tuple(items) if items and all(self._is_among_us(item, key[0]) for item in items) else ()

    def _is_connected(self, key: ThreadKey) -> bool:
        """An event loop may watch something besides what its own Python threads wake it with, at least one object: a library's
        native thread may wake it, too.
        """
        blocked = self._job.blocked.get(key)
        if blocked is None:
            return True
        return len(blocked.waits_on) > 1 and (self._watched(key) != () or bool(self._job.natives(key[0])))

    def _watched(self, key: ThreadKey) -> tuple[KernelObject, ...] | None:
        """The objects an event loop watches, without those that only its own process has; `None` if not all are known."""
        blocked = self._job.blocked.get(key)
        if blocked is None or not all(name in self._job.objects for name in blocked.waits_on):
            return None
        return tuple(item for item in self._job.waits_on(key) if not self._is_its_own(item, key[0]))

    def _is_its_own(self, item: KernelObject, pid: int) -> bool:
        if item.kind == "socket" and item.peer:
            # Another process that waits at the other end has it too: one of the two has only inherited it.
            others = self._job.waiters.get(item.peer, frozenset()) - {pid}
            return not others and item.peer in self._job.held_by.get(pid, frozenset())
        return item.kind in ("pipe", "eventfd") and {row.pid for row in self._job.holders.get(item.id, ())} == {pid}

    def _is_among_us(self, item: KernelObject, pid: int) -> bool:
        far = item.peer if item.kind == "socket" else item.id
        if item.kind == "process":
            return True
        if item.kind not in ("pipe", "socket") or far is None or item.listens or self._job.outsiders.get(far):
            return False
        return any(row.pid != pid and self._job.is_alive(row.pid) for row in self._job.holders.get(far, ()))

    def waiting(self, key: ThreadKey) -> list[Task]:
        """The tasks of the user's code in the event loop that a thread rests in, but those that sleep or wait for requests."""
        if self._job.wait_state(key).kind is not Wait.EVENT_LOOP:
            return []
        return [row for row in self.tasks.get(key, ()) if row.waits not in (SLEEP, REQUESTS) and user_frame(row)]
