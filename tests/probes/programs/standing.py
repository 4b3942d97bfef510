"""Threads that stand in calls of every kind, one kind each; says how many there are once all of them are about to stand.

The main thread reads names from its standard input; each is the name of a function that a fresh piece of code defines and
that stands until the next name comes.
"""

# ruff: noqa: E731, E741, N802, PLW0108, UP031
# fmt: off
# Some of the calls are laid out as nobody would.

import asyncio
import contextlib
import ctypes
import functools
import multiprocessing
import signal
import sys
import threading
import time

ENTERED = threading.Semaphore(0)
NOTHING = None


def stand(*_words, **_more):
    """Where all of them stand."""
    number, real, words, pairs = 12345678901, -2.5e-7, "it's \"here\"\n", {"a": (1, None), 2: [True]}
    large, wide, empty = -(10**40), "straße 漢字 🙂", ()
    ENTERED.release()
    time.sleep(
        max(
            100_000,
            number - number,
        )
    )
    return real, words, pairs, large, wide, empty


def nested_calls():
    def inner(depth, *, keyword="x"):
        if depth:
            inner(depth - 1, keyword=keyword)
        else:
            stand()

    inner(7)


def generator():
    def items():
        yield 1
        yield from others()

    def others():
        stand()
        yield 2

    for item in items():
        last = item
    return last


def coroutine():
    async def inner():
        stand()

    async def outer():
        await inner()

    asyncio.run(outer())


def awaiting():
    async def waits():
        ENTERED.release()
        await asyncio.Event().wait()

    asyncio.run(waits())


def asynchronous_generator():
    async def items():
        yield 1
        stand()

    async def reads():
        async for _ in items():
            pass

    asyncio.run(reads())


def comprehension():
    return [
        [
            stand(row)
            for row in range(2)
        ]
        for _ in range(2)
    ]


def dictionary_comprehension():
    return {key: stand(key) for key in "ab"}


def anonymous():
    return (lambda value: stand(value))(1)


def decorator(function):
    @functools.wraps(function)
    def wrapper(*arguments, **keywords):
        return function(*arguments, **keywords)

    return wrapper


@decorator
@decorator
def decorated(first=1, second=2):
    return stand(
        first,

        second,
    )


def several_lines():
    text = (
        "a"
        "b"
    )
    return (
        len(text)
        + stand(
            text,
            [
                1,
                2,
            ],
        )
        + 1
    )


def from_text():
    exec("x = 1\n\n\ndef made(stand):\n\n    stand()\n\nmade(stand)", {"stand": stand})


def key_of_sort():
    sorted(
        [3, 1, 2],
        key=stand,
    )


def callback_of_c():
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda _left, _right: stand() or 0)
    numbers = (ctypes.c_int * 2)(1, 2)
    ctypes.CDLL(None).qsort(numbers, 2, 4, compare)


class Things:
    def __init__(self):
        self.one = functools.partial(self.method, 1)

    @property
    def attribute(self):
        return self[1]

    def __getitem__(self, key):
        return self.one()

    @classmethod
    def of_class(cls, value):
        return cls.of_nobody(value)

    @staticmethod
    def of_nobody(value):
        return stand(value)

    def method(self, value):
        return self.of_class(value)

    def __del__(self):
        stand()


def methods():
    return Things().attribute


def body_of_class():
    class Inner:
        value = stand()

    return Inner


def context_manager():
    @contextlib.contextmanager
    def manager():
        try:
            yield 1
        finally:
            stand()

    with manager() as value, contextlib.suppress(ValueError):
        raise ValueError(value)


def end_of_object():
    thing = Things()
    thing.one = None
    del thing


def deep_recursion(depth=600):
    try:
        if depth:
            deep_recursion(depth - 1)
        else:
            stand()
    finally:
        depth += 1


def many_variables():
    a = b = c = d = e = f = g = h = i = j = k = l = m = n = o = p = q = r = s = t = u = v = w = x = y = z = 1
    aa = bb = cc = dd = ee = 2
    inner = lambda: (stand(), a, b, c)
    inner()
    return d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, bb, cc, dd, ee


def größe_漢字():
    stand()


def waiting_for_a_lock():
    lock = threading.Lock()
    with lock:
        ENTERED.release()
        lock.acquire()


def waiting_for_a_condition():
    condition = threading.Condition()
    with condition:
        ENTERED.release()
        condition.wait()


def waiting_for_an_end():
    thread = threading.Thread(target=stand, daemon=True, name="the one that is waited for")
    thread.start()
    thread.join()


KINDS = (
    nested_calls, generator, coroutine, awaiting, asynchronous_generator, comprehension, dictionary_comprehension, anonymous,
    decorated, several_lines, from_text, key_of_sort, callback_of_c, methods, body_of_class, context_manager, end_of_object,
    deep_recursion, many_variables, größe_漢字, waiting_for_a_lock, waiting_for_a_condition, waiting_for_an_end,
)


def child(pipe):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with its parent
    threads = [threading.Thread(target=kind, daemon=True, name=f"in a child: {kind.__name__}") for kind in KINDS[:4]]
    for thread in threads:
        thread.start()
    for _ in threads:
        ENTERED.acquire()
    pipe.send("ready")
    stand()


def fresh(name):
    """A function of that name, at a line of its own, as code that is gone after its call."""
    text = "\n" * (len(name) + name.count("b")) + "def %s(enter):\n    enter()\n" % name
    names = {}
    exec(text, names)
    names[name](enter)


def enter():
    print("entered", flush=True)
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    WANTED.append(line.strip())


WANTED = []


def main():
    for kind in KINDS:
        threading.Thread(target=kind, daemon=True, name=f"in {kind.__name__}").start()
        ENTERED.acquire()
    pids = []
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        here, there = context.Pipe()
        process = context.Process(target=child, args=(there,), daemon=True)
        process.start()
        here.recv()
        pids.append(process.pid)
    print(*pids, flush=True)
    WANTED.append(sys.stdin.readline().strip())
    while True:
        fresh(WANTED.pop())


if __name__ == "__main__":
    main()
