"""What the variables of a running program lead to: a program that changes one thing when told to, and waits in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mpmon.model import CLOCK, variable_number
from mpmon.probes.files import Proc
from mpmon.probes.interpreter import look_inside
from mpmon.probes.interpreter.contents import NOT_KNOWN
from mpmon.probes.interpreter.layouts import TABLE
from tests.patience import becomes

pytestmark = pytest.mark.skipif(sys.version_info[:2] not in TABLE, reason="a Python whose layout is not known")

PROGRAM = """
import collections
import functools
import heapq
import itertools
import queue
import sqlite3
import sys

class Counter:
    def __init__(self):
        self.steps, self.unused = 0, None

    def step(self):
        self.steps += 1

class Slim:
    __slots__ = ("steps",)

    def __init__(self):
        self.steps = 0.5

def SimpleQueue(items):
    made = queue.SimpleQueue()
    for item in items:
        made.put(item)
    return made

class Scores(list):
    best = None

class Trainer:
    def __init__(self):
        self.state = {{"counters": [Counter()]}}

def counts():
    steps = 0
    def step():
        nonlocal steps
        steps += 1
    return step

def wait():
    print("ready", flush=True)
    return sys.stdin.readline()

def loop(thing):
    while wait():
        {step}

{call}
"""

Program = subprocess.Popen[str]
Digests = dict[tuple[int, int], int]

CHANGES: dict[str, tuple[str, str]] = {
    "an attribute": ("Counter()", "thing.steps += 1"),
    "an attribute of an object that a method belongs to": ("Counter().step", "thing()"),
    "an attribute of a class": ("type('Steps', (), {'count': 0})", "thing.count += 1"),
    "an attribute in slots": ("Slim()", "thing.steps *= 2"),
    "an attribute of an object in a list in a dictionary": ("Trainer()", "thing.state['counters'][0].step()"),
    "a number beyond 64 bits": ("[1 << 100]", "thing[0] += 1"),
    "a long list": ("list(range(10**6))", "thing.append(1)"),
    "the last of a list": ("list(range(10**6))", "thing[-1] += 1"),
    "the middle of a list": ("list(range(1000))", "thing[520] = 1"),
    "the smallest of a heap": ("[5, 7, 9]", "heapq.heapreplace(thing, 8)"),
    "a large dictionary": ("dict.fromkeys(range(10**5))", "thing[-1] = 1"),
    "a value in a dictionary": ("{'best': 0.5}", "thing['best'] += 1"),
    "a set": ("{1, 2}", "thing.add(3)"),
    "a queue that stays as long as it is": ("collections.deque([1, 2])", "thing.rotate()"),
    "what a function shares with the one around it": ("counts()", "thing()"),
    "what a partial function has": ("functools.partial(heapq.heappop, [1, 2])", "thing()"),
    "what an iterator calls": ("iter(counts(), 9)", "next(thing)"),
    "a value in a dictionary that counts": ("collections.Counter('ab')", "thing['a'] += 1"),
    "an attribute of a list of a class of its own": ("Scores([1])", "thing.best = 2"),
    "an element of one": ("Scores([1])", "thing[0] = 2"),
    "bytes in place": ("bytearray(10)", "thing[0] = 1"),
    "a text": ("['a' * 100]", "thing[0] += 'a'"),
    "an event that is set": ("__import__('threading').Event()", "thing.set()"),
    "how far an iterator is": ("iter([1, 2, 3])", "next(thing)"),
    "a queue made in C": ("SimpleQueue([1, 2])", "thing.get()"),
    "the same, and one more": ("SimpleQueue([1, 2])", "thing.put(3)"),
}

TENSORS: dict[str, tuple[str, str]] = {
    "the numbers of a tensor": ("torch.zeros(1000, 1000)", "thing += 1"),
    "a weight of a model": (
        "torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))",
        "thing[1].weight.data.add_(1)",
    ),
    "a part of a tensor": ("torch.zeros(100)[3:5]", "thing += 1"),
    "the numbers of an array": ("numpy.zeros((100, 3))", "thing += 1"),
    "an array of one number": ("numpy.array(1.0)", "thing += 1"),
}


@contextmanager
def waiting(folder: Path, step: str, call: str) -> Generator[Program]:
    """The program, which waits before its first step."""
    script = folder / "job.py"
    script.write_text(PROGRAM.format(step=step, call=call))
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            listen(program)
            yield program
        finally:
            program.kill()


def listen(program: Program) -> None:
    assert program.stdout
    assert program.stdout.readline() == "ready\n"


def go_on(program: Program) -> None:
    """One step."""
    assert program.stdin
    program.stdin.write("\n")
    program.stdin.flush()
    listen(program)


def digests(program: Program) -> Digests:
    found = look_inside(Proc(), program.pid, {}, looping=[program.pid]).contents[program.pid]
    return {(place, number): digest for place, number, digest in found}


Counts = dict[tuple[int, int], tuple[int, dict[str, int]]]


def counts(program: Program) -> Counts:
    found = look_inside(Proc(), program.pid, {}, looping=[program.pid]).counts[program.pid]
    return {(place, number): (rest, sums) for place, number, rest, sums in found}


def changed(program: Program) -> set[int]:
    """Places of the calls with a variable that leads to something else after a step; nothing changes without one."""
    before = digests(program)
    assert digests(program) == before
    go_on(program)
    after = digests(program)
    return {name[0] for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


LOOP = 1

THING = variable_number("thing")
"""Place of `loop`, which the module calls."""


@pytest.mark.parametrize("way", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(tmp_path: Path, way: tuple[str, str]) -> None:
    thing, step = way
    with waiting(tmp_path, step, f"loop({thing})") as program:
        assert changed(program) == {LOOP}


@pytest.mark.parametrize("way", TENSORS.values(), ids=TENSORS)
def test_a_change_in_a_tensor_is_seen(tmp_path: Path, way: tuple[str, str]) -> None:
    thing, step = way
    library = thing.partition(".")[0]
    pytest.importorskip(library)
    with waiting(tmp_path, step, f"import {library}; loop({thing})") as program:
        assert changed(program) == {LOOP}


def test_an_object_without_attributes_is_known_to_have_no_state(tmp_path: Path) -> None:
    with waiting(tmp_path, "pass", "loop(type('Blocks', (), {})())") as program:
        assert (LOOP, THING) in digests(program)


def test_what_a_generator_of_random_numbers_has_drawn_changes_nothing(tmp_path: Path) -> None:
    with waiting(tmp_path, "thing.random()", "import random; loop(random.Random(3))") as program:
        before = digests(program)
        go_on(program)
        assert digests(program) == before
        assert (LOOP, THING) in before


def test_the_calls_of_its_parent_are_not_read_in_a_forked_process(tmp_path: Path) -> None:
    call = (
        "import multiprocessing, time\n"
        "def linger(thing):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(1000)\n"
        "def parent(steps):\n"
        "    multiprocessing.get_context('fork').Process(target=linger, args=([1],)).start()\n"
        "parent([2])"
    )
    with waiting(tmp_path, "pass", call) as program:
        (child,) = psutil.Process(program.pid).children()
        assert becomes(lambda: child.pid in look_inside(Proc(), child.pid, {}, looping=[child.pid]).contents)
        found = {number for _, number, _ in look_inside(Proc(), child.pid, {}, looping=[child.pid]).contents[child.pid]}
        assert THING in found
        assert variable_number("steps") not in found
        child.kill()


def test_what_a_nested_function_counts_is_seen_in_its_call(tmp_path: Path) -> None:
    call = "def outer():\n    steps = [0]\n    def inner():\n        while wait(): steps[0] += 1\n    inner()\nouter()"
    with waiting(tmp_path, "pass", call) as program:
        assert changed(program) == {LOOP, LOOP + 1}


def test_a_loop_of_the_module_itself(tmp_path: Path) -> None:
    """Its variables are the names of the module."""
    with waiting(tmp_path, "pass", "steps = 0\nwhile wait(): steps += 1") as program:
        assert changed(program) == {0}


def test_which_name_of_the_module_a_loop_counts(tmp_path: Path) -> None:
    with waiting(tmp_path, "pass", "steps, others = 0, [1]\nwhile wait(): steps += 1") as program:
        before = digests(program)
        go_on(program)
        after = digests(program)
    assert {name for name in before if before[name] != after[name]} == {(0, variable_number("steps"))}


def test_a_name_of_the_module_that_a_function_counts(tmp_path: Path) -> None:
    call = "steps = 0\ndef work():\n    global steps\n    while wait(): steps += 1\nwork()"
    with waiting(tmp_path, "pass", call) as program:
        assert changed(program) == {0, LOOP}


COUNTS: dict[str, tuple[str, str, str]] = {
    "an attribute": ("Counter()", "thing.steps += 1", ".steps"),
    "a number in a dictionary": ("{'tries': 1}", "thing['tries'] += 1", ""),
    "a number in an attribute's list": ("type('Box', (), {'__init__': lambda self: setattr(self, 'tries', [5])})()",
                                        "thing.tries[0] += 1", ".tries"),
}  # fmt: skip


@pytest.mark.parametrize("way", COUNTS.values(), ids=COUNTS)
def test_a_whole_number_that_grows_is_told_from_other_changes(tmp_path: Path, way: tuple[str, str, str]) -> None:
    thing, step, name = way
    with waiting(tmp_path, step, f"loop({thing})") as program:
        ((place, (rest, sums)),) = ((place, found) for place, found in counts(program).items() if place[0] == LOOP)
        go_on(program)
        rest_after, sums_after = counts(program)[place]
    assert rest_after == rest
    assert sums_after == sums | {name: sums[name] + 1}


def test_of_two_numbers_one_that_shrinks_is_seen_beside_one_that_grows(tmp_path: Path) -> None:
    with waiting(tmp_path, "thing[0] += 1; thing[1] -= 1", "loop([5, 5])") as program:
        before = counts(program)
        go_on(program)
        assert counts(program)[LOOP, THING][1][""] < before[LOOP, THING][1][""]


def test_another_change_is_seen_beside_a_number(tmp_path: Path) -> None:
    with waiting(tmp_path, "thing['tries'] += 1; thing['new'] = 'x'", "loop({'tries': 1})") as program:
        before = counts(program)
        go_on(program)
        assert counts(program)[LOOP, THING][0] != before[LOOP, THING][0]


UNCHANGED: dict[str, tuple[str, str]] = {
    "nothing was done": ("Counter()", "pass"),
    "the same was made anew": ("[]", "thing = [1, 2, 3]"),
    "a number of the function itself, which its frame tells": ("1", "thing += 1"),
    "a database was asked, of which its library keeps count": (
        "sqlite3.connect(':memory:')",
        "[thing.execute('select 1').fetchall() for _ in range(5)]",
    ),
    "another thread waits in an event": ("__import__('threading').Event()", "thing._cond._waiters.append(1)"),
}


@pytest.mark.parametrize("way", UNCHANGED.values(), ids=UNCHANGED)
def test_what_is_the_same_is_no_change(tmp_path: Path, way: tuple[str, str]) -> None:
    thing, step = way
    with waiting(tmp_path, step, f"loop({thing})") as program:
        go_on(program)
        assert changed(program) == set()


@pytest.mark.parametrize("clock", ["time.time()", "time.monotonic()", "datetime.datetime.now().year"])
def test_a_loop_that_looks_at_a_clock(tmp_path: Path, clock: str) -> None:
    call = f"import datetime, time\ndef work():\n    while {clock} >= 0:\n        wait()\nwork()"
    with waiting(tmp_path, "pass", call) as program:
        assert digests(program)[LOOP, CLOCK] == NOT_KNOWN


@pytest.mark.parametrize("thing", ["(n for n in range(9))", "map(abs, [1, 2])", "itertools.count()"])
def test_an_iterator_that_does_not_tell_where_it_is(tmp_path: Path, thing: str) -> None:
    with waiting(tmp_path, "pass", f"loop({thing})") as program:
        assert digests(program)[LOOP, THING] == NOT_KNOWN


def rounds(items: str, seen: int) -> str:
    return f"thing = itertools.cycle({items})\nfor _ in range({seen}): next(thing)\nloop(thing)"


@pytest.mark.parametrize(("seen", "told"), [(4, True), (2, False)])
def test_an_iterator_that_begins_again_and_again(tmp_path: Path, seen: int, *, told: bool) -> None:
    """Only in its first round is it not known what comes."""
    with waiting(tmp_path, "next(thing)", rounds("[5, 6, 7]", seen)) as program:
        assert (digests(program).get((LOOP, THING)) != NOT_KNOWN) == told
        go_on(program)
        assert changed(program) == set() or not told


def test_an_object_of_a_native_library(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with waiting(tmp_path, "pass", "import torch; loop(torch.distributed.HashStore())") as program:
        assert digests(program)[LOOP, THING] == NOT_KNOWN


# Loops that turn


@pytest.mark.parametrize(
    ("body", "turns"),
    [
        ("while not hashlib.done: pass", True),
        ("while True: pass", True),
        ("hashlib.pbkdf2_hmac('sha1', b'', b'', (1 << 31) - 1)", False),
    ],
)
def test_a_loop_turns_and_native_code_stays_where_it_is(tmp_path: Path, body: str, *, turns: bool) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        f"import hashlib\nhashlib.done = False\ndef work():\n    print('ready', flush=True)\n    {body}\nwork()\n"
    )
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            listen(program)
            # One look may come before it is there, while it has no CPU, or hit the same instruction each time.
            looks = (look_inside(Proc(), program.pid, {}, looping=[program.pid]) for _ in range(2000 if turns else 20))
            seen: set[tuple[int, ...]] = set()
            while (LOOP,) not in seen and (look := next(looks, None)):
                seen.add(look.turning.get(program.pid, ()))
        finally:
            program.kill()
    assert seen <= {(), (LOOP,)}
    assert ((LOOP,) in seen) == turns


def test_how_much_each_thread_has_read_and_written(tmp_path: Path) -> None:
    with waiting(tmp_path, "open('/dev/null', 'w').write('ten bytes.')", "loop(1)") as program:
        tids = [program.pid]
        read_before, wrote_before = look_inside(Proc(), program.pid, {}, looping=tids).moved[program.pid]
        go_on(program)
        read, wrote = look_inside(Proc(), program.pid, {}, looping=tids).moved[program.pid]
    assert wrote - wrote_before == len("ten bytes.") + len("ready\n")
    assert read - read_before == len("\n")
