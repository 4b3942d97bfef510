"""Queues as they are seen from outside, with nothing prepared in the job."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.ipc import LockView
from mpmon.diagnosis.state.job_state import JobState
from tests.ipc.looking import files_of, looking_at, state_of, view_of
from tests.ipc.running import Job, kill, stop
from tests.live.interpreters import VERSIONS, interpreters

pytestmark = pytest.mark.live

METHODS = ("fork", "spawn", "forkserver")


def begin(running: Job) -> tuple[int, dict[str, str]]:
    """The child, and the ids of the queues by their names."""
    heard = running.hear()
    return heard["child"], heard["names"]


def contents(job: JobState, names: dict[str, str]) -> dict[str, tuple[int | None, int | None]]:
    """Items and capacity of each queue."""
    states = {name: state_of(job, pipe) for name, pipe in names.items()}
    return {name: (state.items, state.capacity) for name, state in states.items()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("version", VERSIONS)
def test_how_many_items_are_in_a_queue(method: str, version: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    with Job("queues.py", method, python=python) as running:
        child, names = begin(running)
        running.order("put bounded 5")
        running.order("put unbounded 3")
        running.order("put joinable 1")
        running.order("put simple 2")
        running.order("get bounded 2")
        with looking_at(running.pid) as looking:
            job = looking.round()
        assert contents(job, names) == {
            "bounded": (3, 7), "unbounded": (3, None), "joinable": (1, 3), "simple": (None, None),
        }  # fmt: skip
        bounded, simple = state_of(job, names["bounded"]), state_of(job, names["simple"])
        assert (bounded.kind, simple.kind) == ("Queue", "SimpleQueue")
        assert (bounded.putters, bounded.getters) == ((running.pid,), (child,))
        assert simple.reasons["items"] == "a SimpleQueue does not count its items"
        assert simple.unread_bytes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("version", VERSIONS)
def test_who_has_taken_items_that_are_not_said_to_be_done(method: str, version: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    with Job("queues.py", method, python=python) as running:
        child, names = begin(running)
        running.order("put joinable 3")
        running.order("get joinable 2")
        running.order("done joinable 1")
        running.order("put unbounded 1")
        running.order("join")
        with looking_at(running.pid) as looking:
            # Who uses a queue is known from the first round on, and how much from the next.
            looking.round()
            job = looking.until(lambda job: state_of(job, names["joinable"]).joined in waits_on(job, running.pid))
        joinable, plain = state_of(job, names["joinable"]), state_of(job, names["unbounded"])
        assert (joinable.items, joinable.unfinished) == (1, 2)
        assert dict(joinable.undone) == {running.pid: 0, child: 1}
        assert (plain.tasks, plain.joined, plain.unfinished, plain.undone) == (None, None, None, ())


@pytest.mark.parametrize("method", METHODS)
def test_what_one_that_has_ended_put(method: str) -> None:
    with Job("queues.py", method) as running:
        child, names = begin(running)
        running.order("send bounded 5")
        running.order("get bounded 2")
        with looking_at(running.pid) as looking:
            looking.round()
            first = state_of(looking.round(), names["bounded"])
            running.order("put bounded 1")
            running.order("put unbounded 1")
            # Main was not known to put until now.
            second = state_of(looking.round(), names["bounded"])
            other = state_of(looking.round(), names["unbounded"])
        assert (first.items, first.by_ended, first.putters, first.getters) == (3, 5, (), (child,))
        assert (second.items, second.by_ended, second.putters) == (4, 5, (running.pid,))
        assert other.by_ended == 0


def waits_on(job: JobState, pid: int) -> tuple[str, ...]:
    """What its main thread sleeps on."""
    row = job.blocked.get((pid, pid))
    return row.waits_on if row else ()


@pytest.mark.parametrize("method", METHODS)
def test_how_many_items_were_taken_so_far(method: str) -> None:
    with Job("queues.py", method) as running:
        child, names = begin(running)
        running.order("put unbounded 5")
        running.order("get unbounded 2")
        with looking_at(running.pid) as looking:
            looking.round()
            first = state_of(looking.round(), names["unbounded"])
            running.order("get unbounded 3")
            second = state_of(looking.round(), names["unbounded"])
            nobody = state_of(looking.round(), names["joinable"])
        assert (first.getters, first.taken, second.taken) == ((child,), 2, 5)
        assert nobody.taken is None


def test_the_bytes_in_the_pipe() -> None:
    with Job("queues.py", "fork") as running:
        _, names = begin(running)
        running.order("put simple 3")
        with looking_at(running.pid) as looking:
            before = state_of(looking.round(), names["simple"]).unread_bytes
            running.order("get simple 3")
            after = state_of(looking.round(), names["simple"]).unread_bytes
    # A length of 4 bytes, and a small number pickled by protocol 4 or 5: 80 04 4B 00 2E.
    assert (before, after) == (3 * (4 + 5), 0)


def test_a_job_that_is_stopped_is_read_all_the_same() -> None:
    with Job("queues.py", "spawn") as running:
        child, names = begin(running)
        running.order("put bounded 6")
        running.order("get bounded 1")
        stop(running.pid, child)
        with looking_at(running.pid) as looking:
            job = looking.round()
        assert state_of(job, names["bounded"]).items == 5
        assert {job.processes[pid].state for pid in (running.pid, child)} == {"T"}


def test_a_screen_sees_the_same_some_rounds_later() -> None:
    with Job("queues.py", "spawn") as running:
        child, names = begin(running)
        running.order("put bounded 5")

        def bounded(job: JobState) -> list[int | None]:
            return [row.items for row in job.snapshot.queues if row.object == names["bounded"]]

        with looking_at(running.pid, eager=False) as looking:
            assert bounded(looking.round()) == []
            looking.until(lambda job: bounded(job) == [5])
            running.order("get bounded 2")
            job = looking.until(lambda job: bounded(job) == [3] and state_of(job, names["bounded"]).getters)
        state = state_of(job, names["bounded"])
        assert (state.putters, state.getters) == ((running.pid,), (child,))


def test_who_waits_for_room_and_who_for_an_item() -> None:
    with Job("queues.py", "fork") as running:
        child, names = begin(running)
        running.order("put bounded 7")
        running.order("fill")
        with looking_at(running.pid) as looking:
            job = looking.until(lambda job: view_of(job, names["bounded"]).blocked_put)
        view = view_of(job, names["bounded"])
        assert (view.depth, view.capacity, view.blocked_put, view.blocked_get) == (7, 7, (running.pid,), ())
        assert view.producers == (running.pid,)
        # Nobody got anything yet; both have the reading end since the fork.
        assert view.consumers == tuple(sorted((running.pid, child)))
        assert "consumers" in view.reasons


def test_who_has_the_lock_of_the_readers_and_that_it_died_with_it() -> None:
    with Job("queues.py", "fork") as running:
        _, names = begin(running)
        waiters = running.order("hold")["waiters"]

        def lock(job: JobState) -> LockView:
            found = view_of(job, names["unbounded"]).read_lock
            assert found
            return found

        with looking_at(running.pid) as looking:
            job = looking.until(
                lambda job: set(view_of(job, names["unbounded"]).blocked_get) == set(waiters) and lock(job).holders
            )
            (holder,) = lock(job).holders
            assert holder in waiters
            assert (lock(job).taken, lock(job).orphaned) == (True, False)
            kill(holder)
            job = looking.until(lambda job: not job.is_alive(holder) and lock(job).orphaned)
        (left,) = set(waiters) - {holder}
        assert lock(job).holders == ()
        assert view_of(job, names["unbounded"]).blocked_get == (left,)


def test_a_queue_that_is_gone_is_not_shown_and_its_successor_is_another_one() -> None:
    with Job("queues.py", "spawn") as running:
        _, names = begin(running)
        with looking_at(running.pid) as looking:
            state_of(looking.round(), names["joinable"])
            successor = running.order("renew")["name"]
            running.order("put unbounded 2")
            job = looking.until(lambda job: successor in {row.object for row in job.snapshot.queues})
        state = state_of(job, successor)
        assert (state.items, state.capacity) == (2, 9)


def test_rows_of_a_job_that_stands_still_are_the_very_same() -> None:
    with Job("queues.py", "fork") as running:
        child, _ = begin(running)
        stop(running.pid, child)
        with looking_at(running.pid) as looking:
            looking.round()
            before, after = looking.round(), looking.round()
    first, second = before.snapshot, after.snapshot
    for table in ("queues", "limits", "shared_uses", "unknowns"):
        assert getattr(first, table) is getattr(second, table)
    assert all(one is other for one, other in zip(files_of(before), files_of(after), strict=True))
    assert first.queues
