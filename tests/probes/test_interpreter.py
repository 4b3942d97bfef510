"""The interpreter reads itself: what a look at this very process finds, while its threads stand in known places."""

from __future__ import annotations

import ctypes
import dis
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mpmon.model import LockUse
from mpmon.probes.files import Proc
from mpmon.probes.interpreter import Findings, look_inside
from mpmon.probes.interpreter.frames import handler_depth
from mpmon.probes.interpreter.layouts import TABLE
from mpmon.probes.interpreter.rounds import NO_POSITION
from mpmon.probes.kernel import KernelLook
from tests.live.interpreters import VERSIONS, interpreters
from tests.sleepers import sleeper

pytestmark = pytest.mark.skipif(sys.version_info[:2] not in TABLE, reason="a Python whose layout is not known")


@contextmanager
def standing(*works: Callable[[threading.Event, threading.Event], None]) -> Iterator[list[int]]:
    """Threads that each said where they are, and the kernel's ids of them; they end with the block."""
    end = threading.Event()
    threads: list[threading.Thread] = []
    for work in works:
        ready = threading.Event()
        threads.append(threading.Thread(target=work, args=(ready, end), daemon=True))
        threads[-1].start()
        ready.wait()
    try:
        yield [thread.native_id or 0 for thread in threads]
    finally:
        end.set()
        for thread in threads:
            thread.join()


def sleepers(pid: int | None = None) -> dict[int, str]:
    """Threads of this process, or another one, that wait in a futex, as the kernel sees them."""
    pid = pid or os.getpid()
    look = KernelLook(Proc(), time.time())
    look.look([pid])
    rows = look.blocked[pid]
    return {row.tid: name for row in rows for name in row.waits_on if name.startswith("futex:")}


def look(*, until: Callable[[Findings], bool] = lambda _: True, pid: int | None = None) -> Findings:
    """What a look at this process, or another one, finds, once a thread that said it is about to wait really waits."""
    pid = pid or os.getpid()
    for _ in range(2000):
        found = look_inside(Proc(), pid, sleepers(pid))
        if until(found):
            return found
        time.sleep(0.005)
    raise AssertionError(found)


def waits(tid: int) -> Callable[[Findings], bool]:
    return lambda found: any(row.tid == tid and not row.holds for row in found.locks)


def held(found: Findings, tid: int) -> list[LockUse]:
    return [row for row in found.locks if row.tid == tid and row.holds]


def test_with_blocks_name_lock_thread_and_function() -> None:
    outer, inner = threading.Lock(), threading.RLock()

    def work(ready: threading.Event, end: threading.Event) -> None:
        with outer:
            for _ in range(1):
                with inner:
                    ready.set()
                    end.wait()

    with standing(work) as (tid,):
        found = look()
    assert [(row.kind, row.function) for row in held(found, tid)] == [("Lock", "work"), ("RLock", "work")]


def test_a_lock_given_back_is_not_held() -> None:
    lock, other = threading.Lock(), threading.Lock()

    def work(ready: threading.Event, end: threading.Event) -> None:
        with lock:
            pass
        with other:
            pass
        try:
            ready.set()
            end.wait()
        finally:
            pass

    with standing(work) as (tid,):
        assert held(look(), tid) == []


def test_the_lock_a_thread_waits_for_is_the_one_another_holds() -> None:
    lock = threading.Lock()

    def holder(ready: threading.Event, end: threading.Event) -> None:
        with lock:
            ready.set()
            end.wait()

    def waiter(ready: threading.Event, _end: threading.Event) -> None:
        ready.set()
        with lock:
            pass

    with standing(holder, waiter) as (first, second):
        found = look(until=waits(second))
    wanted = next(row for row in found.locks if row.tid == second and not row.holds)
    assert wanted.object in {row.object for row in held(found, first)}
    assert wanted.function == "waiter"


def test_an_rlock_names_its_owner_without_a_with_block() -> None:
    lock = threading.RLock()

    def holder(ready: threading.Event, end: threading.Event) -> None:
        lock.acquire()
        ready.set()
        end.wait()
        lock.release()

    def waiter(ready: threading.Event, _end: threading.Event) -> None:
        ready.set()
        lock.acquire()
        lock.release()

    with standing(holder, waiter) as (first, second):
        found = look(until=waits(second))
    assert [(row.kind, row.function) for row in held(found, first)] == [("RLock", None)]


def test_the_lock_inside_of_a_condition() -> None:
    condition = threading.Condition()

    def work(ready: threading.Event, end: threading.Event) -> None:
        with condition:
            ready.set()
            end.wait()

    with standing(work) as (tid,):
        assert [row.kind for row in held(look(), tid)] == ["Condition"]


def test_a_condition_is_given_back_while_it_waits() -> None:
    condition = threading.Condition()

    def work(ready: threading.Event, end: threading.Event) -> None:
        with condition:
            ready.set()
            while not end.is_set():
                condition.wait(0.1)

    with standing(work) as (tid,):
        assert held(look(until=waits(tid)), tid) == []


@pytest.mark.parametrize("inner", [threading.Lock, threading.RLock])
def test_nor_is_it_held_by_one_that_wants_it_back(inner: Callable[[], threading.Lock]) -> None:
    condition = threading.Condition(inner())

    def waiter(ready: threading.Event, _end: threading.Event) -> None:
        with condition:
            ready.set()
            condition.wait()

    def holder(ready: threading.Event, end: threading.Event) -> None:
        with condition:
            condition.notify()
            ready.set()
            end.wait()

    with standing(waiter, holder) as (first, second):
        found = look(until=lambda now: waits(first)(now) and bool(held(now, second)))
    assert (held(found, first), len(held(found, second))) == ([], 1)


def test_a_block_that_gives_its_lock_back_by_hand_proves_nothing() -> None:
    lock = threading.Lock()

    def work(ready: threading.Event, end: threading.Event) -> None:
        with lock:
            ready.set()
            end.wait()
            lock.release()
            lock.acquire()

    with standing(work) as (tid,):
        assert [row.exact for row in held(look(), tid)] == [False]


def test_a_call_of_the_block_that_gives_the_lock_back_proves_nothing_either() -> None:
    lock = threading.Lock()

    def gives_back(ready: threading.Event, end: threading.Event) -> None:
        ready.set()
        end.wait()
        lock.release()

    def work(ready: threading.Event, end: threading.Event) -> None:
        with lock:
            gives_back(ready, end)
            lock.acquire()

    with standing(work) as (tid,):
        assert [row.exact for row in held(look(), tid)] == [False]


def test_another_thread_that_takes_locks_by_hand_may_have_it() -> None:
    lock = threading.Lock()

    def gives_back() -> None:
        lock.release()

    def work(ready: threading.Event, end: threading.Event) -> None:
        with lock:
            gives_back()
            ready.set()
            end.wait()

    def takes(ready: threading.Event, end: threading.Event) -> None:
        lock.acquire()
        ready.set()
        end.wait()

    with standing(work, takes) as (first, _):
        assert [row.exact for row in held(look(), first)] == [False]


@pytest.mark.parametrize("things", [range(5, 9), [5, 6, 7, 8], (5, 6, 7, 8), dict.fromkeys(range(5, 9))], ids=type)
def test_how_far_a_loop_is(things: Collection[int]) -> None:
    """It stands at the second turn, then at the third; the iterator is the same."""
    onwards = threading.Semaphore(0)

    def work(ready: threading.Event, end: threading.Event) -> None:
        for thing in things:
            if thing > 5:
                ready.set()
                onwards.acquire()
        end.wait()

    with standing(work) as (tid,):
        before = positions(tid)
        onwards.release()
        try:
            assert 1 in steps(tid, before)
        finally:
            onwards.release(len(things))


def test_a_loop_over_what_does_not_tell_how_far_it_is() -> None:
    """A generator, an object of a class with `__next__`; objects of other classes beside them are no iterators."""

    class Countdown:
        def __next__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[int]:
            return self

    def work(ready: threading.Event, end: threading.Event) -> None:
        for _ in (number for number in Countdown()):
            ready.set()
            end.wait()
            break

    with standing(work) as (tid,):
        turns = look_inside(Proc(), os.getpid(), {}, running=[tid]).turns[tid]
    assert [position for _, position, place in turns if place >= BELOW_THREAD] == [NO_POSITION]


BELOW_THREAD = 3
"""Frames of threading.py that call a thread's function."""


def positions(tid: int) -> dict[int, int]:
    turns = look_inside(Proc(), os.getpid(), {}, running=[tid]).turns.get(tid, ())
    return {name: at for name, at, _ in turns}


def steps(tid: int, before: dict[int, int]) -> set[int]:
    """How far the iterators of a thread have come that stood elsewhere before, once one has."""
    for _ in range(2000):
        now = positions(tid)
        if found := {now[name] - at for name, at in before.items() if now.get(name, at) != at}:
            return found
        time.sleep(0.005)
    raise AssertionError(before)


def test_the_thread_that_is_joined() -> None:
    started: list[threading.Thread] = []

    def sleeper(ready: threading.Event, end: threading.Event) -> None:
        started.append(threading.current_thread())
        ready.set()
        end.wait()

    def joiner(ready: threading.Event, _end: threading.Event) -> None:
        ready.set()
        started[0].join()

    with standing(sleeper, joiner) as (first, second):
        found = look(until=lambda found: any(row.tid == second for row in found.awaited))
    assert [(row.kind, row.by_tid) for row in found.awaited if row.tid == second] == [("thread", first)]


def test_a_native_wait_that_may_be_for_the_work_of_torch() -> None:
    """By the name of the method that the code calls; another native wait is none."""
    library = ctypes.CDLL(None)
    fences = [ctypes.create_string_buffer(SEMAPHORE_BYTES) for _ in range(2)]
    for fence in fences:
        library.sem_init(fence, 0, 0)
    handle = SimpleNamespace(wait=library.sem_wait)

    def waits(ready: threading.Event, _end: threading.Event) -> None:
        ready.set()
        handle.wait(fences[0])

    def fences_off(ready: threading.Event, _end: threading.Event) -> None:
        ready.set()
        library.sem_wait(fences[1])

    with standing(waits, fences_off) as (first, second), ExitStack() as stack:
        stack.callback(lambda: [library.sem_post(fence) for fence in fences])
        found = look(until=lambda found: sleepers().keys() >= {first, second} and found.awaited)
    assert [(row.tid, row.kind) for row in found.awaited if row.tid in (first, second)] == [(first, "work")]


C10D = """
def all_reduce(group, other, work, fence, ready):
    ready.set()
    work.wait(fence)
"""
"""A function of `torch/distributed/distributed_c10d.py` that waits for its work."""


@pytest.mark.parametrize(("other_is_a_group", "ranks", "name"), [(False, (1, 3), "2"), (True, (), "")])
def test_the_group_of_a_collective(other_is_a_group: bool, ranks: tuple[int, ...], name: str) -> None:
    """By the group at hand, if it is but one: the module knows the members and the name of each."""
    library, fence = ctypes.CDLL(None), ctypes.create_string_buffer(SEMAPHORE_BYTES)
    library.sem_init(fence, 0, 0)
    work, group, other = SimpleNamespace(wait=library.sem_wait), object(), object()
    members = {object(): {0: 0, 1: 1}, group: {3: 1, 1: 0}} | ({other: {2: 0, 3: 1}} if other_is_a_group else {})
    names: dict[str, Any] = {"_pg_group_ranks": members, "_pg_names": {other: "1", group: "2"}}
    exec(compile(C10D, "/site-packages/torch/distributed/distributed_c10d.py", "exec"), names)

    def reduces(ready: threading.Event, _end: threading.Event) -> None:
        names["all_reduce"](group, other, work, fence, ready)

    with standing(reduces) as (tid,), ExitStack() as stack:
        stack.callback(library.sem_post, fence)
        found = look(until=lambda found: tid in sleepers() and any(row.tid == tid for row in found.awaited))
    assert [(row.kind, row.members, row.group) for row in found.awaited if row.tid == tid] == [("work", ranks, name)]


SEMAPHORE_BYTES = 32
"""`sem_t` of glibc on 64-bit machines."""


def test_the_thread_that_runs_the_task_of_a_future() -> None:
    with ThreadPoolExecutor(2) as executor, ExitStack() as stack:
        running, end = threading.Event(), threading.Event()
        stack.callback(end.set)
        ids: list[int] = []

        def task() -> None:
            ids.append(threading.get_native_id())
            running.set()
            end.wait()

        future = executor.submit(task)
        running.wait()

        def asker(ready: threading.Event, _end: threading.Event) -> None:
            ready.set()
            future.result()

        def let_go(ready: threading.Event, finish: threading.Event) -> None:
            ready.set()
            finish.wait()
            end.set()

        with standing(asker, let_go) as (tid, _):
            found = look(until=lambda found: any(row.tid == tid for row in found.awaited))
    assert [(row.kind, row.by_tid) for row in found.awaited if row.tid == tid] == [("future", ids[0])]


EXHAUSTED = """
import os, threading
from concurrent.futures import ThreadPoolExecutor
executor, both = ThreadPoolExecutor(2), threading.Barrier(2)
def task():
    both.wait()
    future = executor.submit(print)
    os.write(1, b"%d\\n" % threading.get_native_id())
    future.result()
for done in [executor.submit(task) for _ in range(2)]:
    done.result()
"""
"""All threads of an executor wait for tasks that are in its queue."""

FULL = """
import os, threading
from concurrent.futures import ThreadPoolExecutor
executor, both, never = ThreadPoolExecutor(2), threading.Barrier(2), threading.Event()
def task():
    both.wait()
    os.write(1, b"%d\\n" % threading.get_native_id())
    never.wait()
for _ in range({tasks}):
    executor.submit(task)
never.wait()
"""
"""All threads of an executor wait for an event."""


def full(found: Findings) -> dict[int, tuple[int, ...]]:
    """The threads of full executors, with all threads of each."""
    return {row.tid: row.queued_for for row in found.awaited if row.kind == "task"}


@pytest.mark.parametrize(("tasks", "is_full"), [(3, True), (2, False)])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_executor_whose_threads_are_all_in_tasks_while_others_are_queued(
    version: str, tasks: int, *, is_full: bool
) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    program = FULL.format(tasks=tasks)
    with subprocess.Popen([python, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            tids = tuple(sorted(int(process.stdout.readline()) for _ in range(2)))
            # At first the third task may not have been queued yet, and the others may not have come to their wait.
            found = look(
                pid=process.pid,
                until=lambda found: sleepers(process.pid).keys() >= set(tids) and len(full(found)) == 2 * is_full,
            )
        finally:
            process.kill()
    assert full(found) == (dict.fromkeys(tids, tids) if is_full else {})


EXHAUSTED_BY_LOOP = """
import asyncio, os, threading
from concurrent.futures import ThreadPoolExecutor
executor, both, loop = ThreadPoolExecutor(2), threading.Barrier(2), asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
async def read():
    return await loop.run_in_executor(executor, print)
async def ask():
    return await asyncio.ensure_future(read())
def task():
    both.wait()
    future = asyncio.run_coroutine_threadsafe(ask(), loop)
    os.write(1, b"%d\\n" % threading.get_native_id())
    future.result()
for done in [executor.submit(task) for _ in range(2)]:
    done.result()
"""
"""The same through coroutines of an event loop in another thread."""

EXHAUSTED_BEHIND_SHIELD = EXHAUSTED_BY_LOOP.replace(
    "ensure_future(read())", "gather(asyncio.sleep(0), asyncio.shield(read()))"
)
"""The same, of which one has to end among others, and cannot be cancelled."""


@pytest.mark.parametrize(
    "program", [EXHAUSTED, EXHAUSTED_BY_LOOP, EXHAUSTED_BEHIND_SHIELD], ids=["own", "loop", "shield"]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_executor_in_whose_queue_the_task_of_a_future_is(version: str, program: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    with subprocess.Popen([python, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            tids = sorted(int(process.stdout.readline()) for _ in range(2))
            # The main thread may not have come to its wait when the tasks are in theirs.
            found = look(
                pid=process.pid,
                until=lambda found: (
                    {row.tid for row in found.awaited} >= {process.pid, *tids}
                    and sum(bool(row.queued_for) for row in found.awaited) == 2
                ),
            )
        finally:
            process.kill()
    awaited = {row.tid: (row.kind, row.by_tid, row.queued_for) for row in found.awaited}
    assert awaited.pop(process.pid)[::2] == ("future", ())
    assert awaited == dict.fromkeys(tids, ("future", None, tuple(tids)))


ASKS_A_LOOP = """
import asyncio, os, sys, threading
async def never():
    await asyncio.Event().wait()
def ask(loop):
    future = asyncio.run_coroutine_threadsafe(never(), loop)
    os.write(1, b"%d\\n" % threading.get_native_id())
    future.result()
async def serve(chosen):
    other = asyncio.new_event_loop()
    threading.Thread(target=other.run_forever, daemon=True).start()
    other.call_soon_threadsafe(lambda: os.write(1, b"%d\\n" % threading.get_native_id()))
    asyncio.get_running_loop().call_later(0.1, ask, asyncio.get_running_loop() if chosen == "own" else other)
    await never()
asyncio.run(serve(sys.argv[1]))
"""
"""A callback of the main thread's loop waits for a coroutine in its own loop, where it never begins, or in another one."""


@pytest.mark.parametrize("chosen", ["own", "other"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_loop_that_has_to_run_for_a_future(version: str, chosen: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    with subprocess.Popen([python, "-c", ASKS_A_LOOP, chosen], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            other, _ = (int(process.stdout.readline()) for _ in range(2))
            expected = [("future", process.pid if chosen == "own" else other)]
            found = look(
                pid=process.pid,
                until=lambda found: (
                    [(row.kind, row.by_tid) for row in found.awaited if row.tid == process.pid] == expected
                ),
            )
        finally:
            process.kill()
    assert not found.unknown


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception tables came with 3.11")
def test_the_depth_of_handlers_is_what_dis_says() -> None:
    def nested(a: threading.Lock, b: threading.Lock) -> None:
        with a:
            for _ in range(3):
                try:
                    with b:
                        print(a)
                finally:
                    print(b)

    table = nested.__code__.co_exceptiontable
    entries = dis._parse_exception_table(nested.__code__)
    assert entries
    for entry in entries:
        for at in range(entry.start, entry.end, 2):
            assert handler_depth(table, at // 2) == entry.depth


def test_a_process_that_cannot_be_read_is_a_reason_not_an_error() -> None:
    found = look_inside(Proc(), 1 << 30, {})
    assert found.locks == ()
    assert found.unknown is not None
    assert found.unknown.table == "locks"


class Crew:
    """Keeps its processes as people do."""

    def __init__(self, *workers: object) -> None:
        self.workers = list(workers)


def test_children_that_ended_are_remembered_while_their_objects_are() -> None:
    context = multiprocessing.get_context("spawn")
    failed = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    child = context.Process(target=os.getpid, name="reader")
    crew = Crew(child)
    child.start()
    child.join()
    failed.wait()

    def work(ready: threading.Event, end: threading.Event) -> None:
        kept = crew
        ready.set()
        end.wait()
        assert kept, failed

    with standing(work):
        found = look()
    remembered = {row.child: (row.returncode, row.name) for row in found.remembered}
    assert remembered[failed.pid] == (3, "")
    assert remembered[child.pid or 0] == (0, "reader")


class Station:
    """Keeps a process under a name of its own."""

    def __init__(self, camera: subprocess.Popen[bytes]) -> None:
        self.camera = camera


def test_a_child_is_remembered_by_whatever_name_an_object_has_it() -> None:
    station = Station(subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"]))
    station.camera.wait()

    def work(ready: threading.Event, end: threading.Event) -> None:
        kept = station
        ready.set()
        end.wait()
        assert kept

    with standing(work):
        found = look()
    assert (station.camera.pid, 4) in [(row.child, row.returncode) for row in found.remembered]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_that_nobody_keeps_are_known_to_multiprocessing(method: str) -> None:
    program = f"""
import multiprocessing, time
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    context.Process(target=time.sleep, args=(3600,), name="planner", daemon=True).start()
    print("ready", flush=True)
    time.sleep(3600)
"""
    with sleeper(program) as parent:
        (row,) = look_inside(Proc(), parent.pid, {}).remembered
        assert row.name == "planner"
        assert row.pid == parent.pid
        os.kill(row.child, signal.SIGKILL)
