"""Tasks of event loops, read from the memory of real programs under every interpreter of this machine."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mpmon.codec import encode
from mpmon.model import SENDS_TO_OTHERS, Task
from mpmon.probes.files import Proc
from mpmon.probes.interpreter import tasks as module
from mpmon.probes.interpreter.coroutines import MOST_CALLS
from mpmon.probes.interpreter.pages import READS
from mpmon.probes.interpreter.tasks import MOST_TASKS, NOT_KNOWN, OTHERS, RAN_ON, TOO_MANY, Reading, read_tasks
from mpmon.probes.memory import Memory
from tests.live.interpreters import VERSIONS, interpreters
from tests.probes.test_stack_reader import Job, job, until

READ = tuple(version for version in VERSIONS if version != "3.14")
"""The versions whose tasks are read."""


@pytest.fixture(scope="module", params=READ)
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def awaiting(version: str) -> Iterator[Job]:
    with contextlib.closing(job(version, "awaiting.py")) as found:
        yield found


def settled(pid: int) -> Reading:
    """What is found once the loop, which said where its tasks are, waits again."""
    found = [Reading()]

    def is_read() -> bool:
        found[0] = read_tasks(Proc(), pid, [pid])
        return found[0].unknown is None

    until(is_read)
    return found[0]


def by_name(pid: int) -> dict[str, Task]:
    return {row.name: row for row in settled(pid).tasks}


def calls(row: Task) -> list[list[Any]]:
    """Function, without what it is defined in, and line of each, innermost first."""
    return [[frame.function.rpartition(".")[2], frame.line] for frame in row.frames]


def test_each_task_is_in_the_calls_and_at_the_lines_where_it_says_it_is(awaiting: Job) -> None:
    rows, said = by_name(awaiting.pid), json.loads(awaiting.said)
    for name, truth in said["calls"].items():
        # What a generator awaits the program cannot ask, so that it may tell the outer calls alone.
        assert calls(rows[name])[-len(truth) :] == truth, name
    assert [frame.function for frame in rows["nested"].frames] == ["sleep", *["nested"] * 4]
    assert [name for name, _ in calls(rows["custom"])] == ["wait", "__await__", "custom"]
    assert [name for name, _ in calls(rows["iterates"])] == ["wait", "items", "iterates"]
    assert all(row.frames[-1].file.endswith("/awaiting.py") for row in (rows["nested"], rows["custom"]))
    assert {row.tid for row in rows.values()} == {awaiting.pid}


WAITS = {
    "sleeps": "sleep", "nested": "sleep", "iterates": "event", "custom": "event", "has_lock": "sleep",
    "wants_lock": "lock", "wants_semaphore": "semaphore", "in_condition": "condition", "gets": "queue get",
    "puts": "queue put", "joins": "queue join", "gathers": "tasks", "awaits_task": "tasks", "waits_for_any": "any task",
    "not_limited": "tasks", "future": "future", "reads": "stream", "receives": "stream", "child": "process",
    "last": "queue get", "has_lock_of_library": "sleep", "wants_lock_of_library": "lock",
    "wants_own_lock": "lock", "in_timeout": "event", "in_group": "tasks",
}  # fmt: skip


def test_what_each_task_waits_for(awaiting: Job) -> None:
    rows = by_name(awaiting.pid)
    assert {name: rows[name].waits for name in WAITS if name in rows} == {
        name: kind for name, kind in WAITS.items() if name in rows
    }
    assert rows["child"].child == json.loads(awaiting.said)["child"]
    assert rows["puts"].waits_on == rows["joins"].waits_on != rows["gets"].waits_on
    assert json.loads(awaiting.said)["unnamed"] in rows


def test_which_tasks_wait_for_which(awaiting: Job) -> None:
    rows = by_name(awaiting.pid)
    sleeps, gets, puts = (rows[name].object for name in ("sleeps", "gets", "puts"))
    assert rows["awaits_task"].tasks == rows["not_limited"].tasks == (sleeps,)
    assert set(rows["gathers"].tasks) == {sleeps, gets}
    assert set(rows["waits_for_any"].tasks) == {sleeps, puts}
    if "in_group" in rows:
        assert rows["in_group"].tasks == (rows["member"].object,)


def test_who_has_a_lock(awaiting: Job) -> None:
    rows = by_name(awaiting.pid)
    assert rows["has_lock"].holds == (rows["wants_lock"].waits_on,)
    assert len(rows["wants_lock"].holds) == 1
    assert rows["wants_lock"].holds != rows["has_lock"].holds
    assert rows["has_lock_of_library"].holds == (rows["wants_lock_of_library"].waits_on,)
    assert rows["wants_lock_of_library"].holds == ()
    assert rows["in_condition"].holds == ()
    # They are the only ones to have it, and want it once more.
    for name in ("wants_semaphore", "wants_own_lock"):
        assert rows[name].holds == (rows[name].waits_on,)


def test_what_sleeping_tasks_lead_to(version: str) -> None:
    with program(version, SLEEPERS) as pid:
        rows = by_name(pid)
    wanted = {rows["waiter"].waits_on, rows["Task-1"].object}
    assert {rows["waiter"].waits, rows["Task-1"].waits} == {"queue get", "requests"}
    found = {name: wanted & set(row.reaches) if row.reaches is not None else None for name, row in rows.items()}
    queue = {rows["waiter"].waits_on}
    assert {name: found[name] for name in ("beats", "puts", "by_global", "by_method", "by_call")} == {
        "beats": set(), "puts": queue, "by_global": queue, "by_method": queue, "by_call": queue,
    }  # fmt: skip
    assert found["anything"] is None
    sends = {name for name, row in rows.items() if SENDS_TO_OTHERS in (row.reaches or ())}
    assert sends == {"publishes", "reads", "logs"}
    # Of the timers: `print` leads to none of them.
    assert {(row.callbacks, row.handlers) for row in rows.values()} == {(4, 1)}


SLEEPERS = """
import asyncio, time, logging, signal, socket, sys
LOG = logging.getLogger("beats")
async def beats(count):
    while True:
        LOG.debug("%s %s", count, time.time())
        await asyncio.sleep(1000)
async def puts(queue):
    while True:
        await asyncio.sleep(1000)
        await queue.put(1)
async def by_global():
    await asyncio.sleep(1000)
    QUEUE.put_nowait(1)
def helper():
    QUEUE.put_nowait(1)
async def by_call():
    await asyncio.sleep(1000)
    helper()
class Worker:
    def __init__(self, queue):
        self.parts = {"queue": [queue]}
    async def work(self):
        await asyncio.sleep(1000)
async def publishes(writer):
    while True:
        await asyncio.sleep(1000)
        writer.write(b"tick")
async def reads(reader):
    async for line in reader:
        await asyncio.sleep(1000)
async def logs(file):
    while True:
        await asyncio.sleep(1000)
        file.write("tick")
async def anything():
    await asyncio.sleep(1000)
    for task in asyncio.all_tasks():
        task.cancel()
async def waiter(queue):
    await queue.get()
async def main():
    global QUEUE
    QUEUE = asyncio.Queue()
    reader, writer = await asyncio.open_connection(sock=socket.socketpair()[0])
    reader.feed_data(bytes([10]))
    for name, work in {
        "publishes": publishes(writer), "reads": reads(reader), "logs": logs(sys.stderr),
        "beats": beats(3), "puts": puts(QUEUE), "by_global": by_global(), "by_method": Worker(QUEUE).work(),
        "by_call": by_call(), "anything": anything(), "waiter": waiter(QUEUE),
    }.items():
        KEPT.append(asyncio.create_task(work, name=name))
    loop = asyncio.get_running_loop()
    for call, *arguments in ((print,), (QUEUE.put_nowait, 1), (lambda queue: queue, QUEUE), (KEPT[-1].cancel,)):
        loop.call_later(1000, call, *arguments)
    loop.add_signal_handler(signal.SIGUSR1, print)
    for _ in range(3):
        await asyncio.sleep(0)
    print("ready", flush=True)
    await asyncio.Event().wait()
KEPT = []
asyncio.run(main())
"""


def test_waits_with_a_time_limit(awaiting: Job) -> None:
    assert {name for name, row in by_name(awaiting.pid).items() if row.timed} - {"in_timeout"} == {"limited"}


def test_a_task_that_goes_on_is_found_further_on(version: str) -> None:
    with contextlib.closing(job(version, "awaiting.py")) as program:
        before = calls(by_name(program.pid)["last"])
        truth = json.loads(program.tell("on"))
        after = calls(by_name(program.pid)["last"])
    assert after == truth != before


@contextlib.contextmanager
def program(version: str, text: str) -> Iterator[int]:
    """The pid of a program that is one piece of code, and that has said that it is ready."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    with subprocess.Popen([python, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


BUSY = """
import asyncio
async def turns():
    while True:
        await asyncio.sleep(0)
async def main():
    asyncio.create_task(turns())
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def test_tasks_of_a_loop_that_runs_are_not_told(version: str) -> None:
    with program(version, BUSY) as pid:
        found = read_tasks(Proc(), pid, [pid])
    assert found.tasks == ()
    assert found.unknown is not None
    assert found.unknown.reason == RAN_ON


NOT_WOKEN = """
import asyncio, threading
async def main():
    answer = asyncio.get_running_loop().create_future()
    def sets():
        answer.set_result(1)
        print("ready", flush=True)
    asyncio.get_running_loop().call_soon(threading.Timer(0.2, sets).start)
    await answer
asyncio.run(main())
"""


def test_a_task_whose_result_is_there_is_ready(version: str) -> None:
    with program(version, NOT_WOKEN) as pid:
        (row,) = settled(pid).tasks
    assert (row.waits, row.frames[0].function) == ("ready", "main")


ENDS = """
import asyncio, time
async def main():
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)
    print("ready", flush=True)
asyncio.run(main())
"""


def test_a_loop_at_its_end_waits_for_the_threads_of_its_executor(version: str) -> None:
    with program(version, ENDS) as pid:
        until(lambda: "executor" in {row.waits for row in settled(pid).tasks})
        (row,) = settled(pid).tasks
    assert row.frames[0].function.rpartition(".")[2] == "shutdown_default_executor"


SERVES = """
import asyncio, time
async def main():
    server = await asyncio.start_server(print, "127.0.0.1", 0)
    kept = asyncio.create_task(asyncio.to_thread(time.sleep, 3600))
    await asyncio.sleep(0)
    print("ready", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


STAYS = """
import asyncio
async def waits(event):
    await event.wait()
async def main():
    kept = asyncio.create_task(waits(asyncio.Event()))
    await asyncio.sleep(0)
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def test_who_waits_for_an_event_that_nobody_else_has_stays(version: str) -> None:
    with program(version, STAYS) as pid:
        rows = settled(pid).tasks
    assert [row.waits for row in rows] == ["requests", "event"]


def test_a_server_and_a_task_that_a_thread_works_for(version: str) -> None:
    with program(version, SERVES) as pid:
        rows = settled(pid).tasks
    assert [(row.waits, row.timed) for row in rows] == [("requests", False), ("thread", False)]


GATHERS = """
import asyncio, time
async def of_threads():
    await asyncio.gather(asyncio.to_thread(time.sleep, 3600), *(loop.run_in_executor(None, time.sleep, 3600) for _ in range(2)))
async def of_others():
    await asyncio.gather(loop.create_future(), loop.run_in_executor(None, time.sleep, 3600))
async def main():
    global loop
    loop = asyncio.get_running_loop()
    kept = [asyncio.create_task(of(), name=of.__name__) for of in (of_threads, of_others)]
    await asyncio.sleep(0.1)
    print("ready", flush=True)
    await kept[0]
asyncio.run(main())
"""


def test_a_task_that_waits_for_several_threads(version: str) -> None:
    with program(version, GATHERS) as pid:
        rows = by_name(pid)
    assert (rows["of_threads"].waits, rows["of_others"].waits) == ("thread", "future")


MANY = """
import asyncio
async def deep(left):
    if left: await deep(left - 1)
    else: await asyncio.Event().wait()
async def main():
    kept = [asyncio.create_task(deep(80), name="x" * 500) for _ in range(450)]
    await asyncio.sleep(0)
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def test_many_tasks_and_deep_ones_are_bounded() -> None:
    with program("{}.{}".format(*sys.version_info), MANY) as pid:
        rows: Sequence[Task] = ()

        def are_read() -> bool:
            nonlocal rows
            found = read_tasks(Proc(), pid, [pid])
            rows = found.tasks
            return found.unknown is not None and found.unknown.reason == TOO_MANY

        until(are_read)
    assert 0 < len(rows) <= MOST_TASKS
    assert all(len(row.frames) <= MOST_CALLS and len(row.name) <= 100 for row in rows)


FOREIGN = """
import asyncio
async def waits():
    await asyncio.sleep(1000)
async def main():
    kept = asyncio.tasks._PyTask(waits(), loop=asyncio.get_running_loop())
    await asyncio.sleep(0)
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def test_tasks_of_another_class_are_told_to_be_missing(version: str) -> None:
    with program(version, FOREIGN) as pid:
        found = Reading()

        def is_read() -> bool:
            nonlocal found
            found = read_tasks(Proc(), pid, [pid])
            return found.unknown is not None and found.unknown.reason != RAN_ON

        until(is_read)
    assert [row.name for row in found.tasks] == ["Task-1"]
    assert found.unknown is not None
    assert found.unknown.reason == OTHERS


OF_OTHERS = """
import asyncio
class Loop(asyncio.SelectorEventLoop):
    _thread_id = property(lambda self: KEPT[-1], lambda self, ident: KEPT.append(ident))
KEPT = [None]
async def main():
    print("ready", flush=True)
    await asyncio.Event().wait()
Loop().run_until_complete(main())
"""


def test_a_loop_that_keeps_its_thread_to_itself_is_read(version: str) -> None:
    with program(version, OF_OTHERS) as pid:
        (row,) = settled(pid).tasks
    assert (row.waits, row.frames[0].function) == ("requests", "Event.wait" if version > "3.10" else "wait")


def test_a_loop_of_another_thread_is_not_told(awaiting: Job) -> None:
    assert read_tasks(Proc(), awaiting.pid, [awaiting.pid + 1]).tasks == ()


class Lying(Memory):
    """The memory of a real program in which some words are others than they are."""

    chance = random.Random(0)
    reads = 0

    def read_some(self, address: int, size: int) -> bytes:
        return self._garbled(super().read_some(address, size))

    def pieces(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._garbled(text) for text in super().pieces(wanted)]

    def _garbled(self, text: bytes) -> bytes:
        Lying.reads += 1
        if len(text) < 8 or self.chance.random() > 0.02:
            return text
        at = self.chance.randrange(0, len(text) - 7, 8)
        word = self.chance.choice((0, 1, (1 << 64) - 1, 1 << 62, self.chance.getrandbits(64), 0xFFFF, 1 << 31))
        return text[:at] + struct.pack("=Q", word) + text[at + 8 :]


@pytest.mark.parametrize("seed", range(30))
def test_memory_that_lies_is_read_within_bounds(awaiting: Job, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Memory", Lying)
    Lying.chance, Lying.reads = random.Random(seed), 0
    found = read_tasks(Proc(), awaiting.pid, [awaiting.pid])
    assert all(len(row.frames) <= MOST_CALLS and encode(row) for row in found.tasks)
    assert Lying.reads <= module.ATTEMPTS * 2 * READS


def test_of_a_version_that_keeps_tasks_elsewhere_that_is_told() -> None:
    with contextlib.closing(job("3.14", "awaiting.py")) as program:
        found = read_tasks(Proc(), program.pid, [program.pid])
    assert found.unknown is not None
    assert found.unknown.reason == NOT_KNOWN
