"""Tasks of an event loop that wait in every way there is, one each; says as JSON in which calls each of them is, at which lines,
once all of them wait.  A line on its standard input lets the task `last` go on to another line.
"""

# ruff: noqa: PLW0603

import asyncio
import contextlib
import json
import os
import socket
import sys


async def sleeps():
    await asyncio.sleep(100_000)


async def nested(depth=3):
    if depth:
        await nested(depth - 1)
    else:
        await asyncio.sleep(100_000)


async def iterates():
    async def items():
        yield 1
        await EVENT.wait()
        yield 2

    async for _ in items():
        pass


class Awaitable:
    def __await__(self):
        yield from EVENT.wait().__await__()


async def custom():
    await Awaitable()


async def has_lock():
    async with LOCK:
        await asyncio.sleep(100_000)


async def wants_lock():
    async with OTHER_LOCK:
        await LOCK.acquire()


async def wants_semaphore():
    async with SEMAPHORE:
        await SEMAPHORE.acquire()


class Library:
    """Locks of a library that names them as asyncio does, and makes the futures itself."""

    class Lock:
        async def __aenter__(self):
            if hasattr(self, "taken"):
                await asyncio.get_running_loop().create_future()
            self.taken = True

        async def __aexit__(self, *error):
            pass


async def wants_own_lock():
    async with OWN_LOCK, OWN_LOCK:
        pass


async def has_lock_of_library():
    async with LIBRARY_LOCK:
        await asyncio.sleep(100_000)


async def wants_lock_of_library():
    async with LIBRARY_LOCK:
        pass


async def in_condition():
    async with CONDITION:
        await CONDITION.wait()


async def gets():
    await EMPTY.get()


async def puts():
    await FULL.put(2)


async def joins():
    await FULL.join()


async def gathers():
    await asyncio.gather(TASKS["sleeps"], TASKS["gets"])


async def awaits_task():
    await TASKS["sleeps"]


async def waits_for_any():
    await asyncio.wait([TASKS["sleeps"], TASKS["puts"]], return_when=asyncio.FIRST_COMPLETED)


async def limited():
    await asyncio.wait_for(EMPTY.get(), 100_000)


async def not_limited():
    await asyncio.wait_for(TASKS["sleeps"], None)


async def in_timeout():
    async with asyncio.timeout(100_000):
        await EVENT.wait()


async def in_group():
    async with asyncio.TaskGroup() as group:
        TASKS["member"] = group.create_task(EVENT.wait(), name="member")


async def future():
    await asyncio.get_running_loop().create_future()


async def reads():
    reader, _ = await asyncio.open_connection(sock=PAIR[0])
    await reader.readline()


async def receives():
    await asyncio.get_running_loop().sock_recv(PAIR[1], 10)


async def child():
    process = await asyncio.create_subprocess_exec("sleep", "100000")
    CHILDREN.put_nowait(process.pid)
    await process.wait()


async def last():
    await WANTED.get()
    await WANTED.get()


ALWAYS = (
    sleeps, nested, iterates, custom, has_lock, wants_lock, wants_semaphore, has_lock_of_library, wants_lock_of_library,
    wants_own_lock, in_condition, gets, puts, joins, gathers, awaits_task, waits_for_any, limited, not_limited, future, reads,
    receives, child, last,
)  # fmt: skip
SINCE_3_11 = (in_timeout, in_group)
TASKS = {}


def calls(task):
    """Function and line of each call, innermost first."""
    found, thing = [], task.get_coro()
    while thing is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(thing, f"{kind}_frame", None)
            if frame is not None:
                found.append((frame.f_code.co_name, frame.f_lineno))
                thing = getattr(thing, f"{kind}_await" if kind != "gi" else "gi_yieldfrom")
                break
        else:
            break
    return found[::-1]


async def main():
    global EVENT, LOCK, OTHER_LOCK, SEMAPHORE, CONDITION, EMPTY, FULL, WANTED, CHILDREN, PAIR, LIBRARY_LOCK, OWN_LOCK
    EVENT, LOCK, OTHER_LOCK = asyncio.Event(), asyncio.Lock(), asyncio.Lock()
    LIBRARY_LOCK, OWN_LOCK = Library.Lock(), asyncio.Lock()
    SEMAPHORE, CONDITION = asyncio.Semaphore(1), asyncio.Condition()
    EMPTY, FULL, WANTED, CHILDREN = asyncio.Queue(), asyncio.Queue(1), asyncio.Queue(), asyncio.Queue()
    PAIR = socket.socketpair()
    PAIR[1].setblocking(False)
    FULL.put_nowait(1)
    for kind in ALWAYS + (SINCE_3_11 if sys.version_info >= (3, 11) else ()):
        TASKS[kind.__name__] = asyncio.create_task(kind(), name=kind.__name__)
    unnamed = asyncio.create_task(sleeps())
    pid = await CHILDREN.get()
    for _ in range(10):
        await asyncio.sleep(0)
    truth = {name: calls(task) for name, task in TASKS.items()}
    print(json.dumps({"calls": truth, "child": pid, "unnamed": unnamed.get_name()}), flush=True)
    loop = asyncio.get_running_loop()
    heard = asyncio.Event()
    loop.add_reader(0, heard.set)
    try:
        while True:
            heard.clear()
            await heard.wait()
            if not os.read(0, 100):
                break
            WANTED.put_nowait(1)
            await asyncio.sleep(0)
            print(json.dumps(calls(TASKS["last"])), flush=True)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
        os._exit(0)


asyncio.run(main())
