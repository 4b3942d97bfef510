"""What a loop tests that sleeps and looks again, by the source of the program that runs."""

from __future__ import annotations

import os
import signal
import textwrap
import time
from pathlib import Path

import pytest

from mpmon.model import BY_CLOCK
from mpmon.probes.files import Proc
from mpmon.probes.loops import Loop, loops_around
from mpmon.probes.sources import LARGEST_SOURCE
from tests.sleepers import sleeper

SLEEPS = "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n"


def of_loop(folder: Path, source: str) -> Loop | None:
    """The loop around the line with `nap()`, as if this process had read the file when it began."""
    file = folder / "job.py"
    text = textwrap.dedent(source)
    file.write_text(text)
    os.utime(file, (0, 0))
    line = next(number for number, row in enumerate(text.splitlines(), 1) if "nap()" in row)
    return loops_around(Proc(), os.getpid(), [(str(file), line)]).get((str(file), line))


@pytest.mark.parametrize(
    ("loop", "tests"),
    [
        ("while child.poll() is None:\n    nap()", ("poll",)),
        ("while not (first.done() and second.ready()):\n    nap()", ("done", "ready")),
        ("while any(p.is_alive() for p in processes):\n    print('alive'); nap()", ("is_alive",)),
        ("while [p for p in processes if p.is_alive()]:\n    nap()", ("is_alive",)),
        ("while p.exitcode is None:\n    nap()", (".exitcode",)),
        ("while True:\n    if future.done():\n        break\n    nap()", ("done",)),
        ("while True:\n    nap()", ()),
        ("while running:\n    nap()", ("?",)),
        ("while not p.poll() and time.time() < end:\n    nap()", ("?", "poll", "time")),
        ("while finished(job):\n    nap()", ("?",)),
        ("while True:\n    try:\n        look()\n        break\n    except OSError:\n        nap()", ("?",)),
        ("while p.poll() is None:\n    if q.empty():\n        if late:\n            break\n    nap()", ("?", "empty", "poll")),
        ("while p.poll() is None:\n    if q.empty():\n        continue\n    nap()", ("poll",)),
        ("while True:\n    try:\n        q.get_nowait()\n    except Empty:\n        nap()\n        continue", ("get_nowait",)),
        ("while True:\n    try:\n        q.get(False)\n    except Empty:\n        tries += 1\n        nap()", ("get_nowait",)),
        ("while left > 0:\n    if tasks.empty():\n        nap()\n        continue\n    work(tasks.get())", ("empty",)),
        ("while True:\n    try:\n        tasks.get_nowait()\n    except Empty:\n        look_around()\n        nap()", ()),
        ("while True:\n    try:\n        tasks.get_nowait()\n    except Empty:\n        pass\n    nap()", ()),
        ("for shard in shards:\n    nap()", None),
        ("while p.poll() is None:\n    for shard in shards:\n        nap()", None),
        ("while p.poll() is None:\n    def later():\n        nap()", None),
        ("nap()", None),
    ],
)  # fmt: skip
def test_what_a_loop_tests_before_it_is_left(tmp_path: Path, loop: str, tests: tuple[str, ...] | None) -> None:
    found = of_loop(tmp_path, loop)
    assert (found and found.tests) == tests


@pytest.mark.parametrize(
    ("loop", "limits"),
    [
        ("while True:\n    nap()\n    tries += 1", ()),
        ("while tries < 5:\n    nap()\n    tries += 1", ("tries 5",)),
        ("while not done:\n    nap()\n    if 5 <= tries:\n        report()", ("tries 5",)),
        ("while not done:\n    nap()\n    if 5 < tries < most:\n        report()", ("most", "tries")),
        ("while not done:\n    nap()\n    if tries > 0.5:\n        report()", ("tries",)),
        ("while not done:\n    nap()\n    if tries >= most:\n        restart()", ("most", "tries")),
        (
            "while not done:\n    nap()\n    if tries > 5:\n        log.warning('still nothing')\n        told = True",
            (),
        ),
        ("while not done:\n    nap()\n    if tries > 5:\n        print('giving up')\n        break", ("tries 5",)),
        (
            "while not done:\n    nap()\n    if tries > 5:\n        log.info('late')\n    else:\n        more()",
            ("tries 5",),
        ),
        (
            "while not done:\n    nap()\n    if time.monotonic() > end:\n        break",
            (".monotonic", BY_CLOCK, "end", "time"),
        ),
        ("while not done:\n    nap()\n    left = end - monotonic()", (BY_CLOCK,)),
        (
            "while not done:\n    nap()\n    if monotonic() - told > 9:\n        log.info('late')\n        told = monotonic()",
            (),
        ),
        ("while not done:\n    nap()\n    if tries == 5:\n        report()", ("tries 5",)),
        (
            "while not done:\n    nap()\n    self.tries += 1\n    if self.tries > 5:\n        restart()",
            (".tries", "self"),
        ),
        (
            "def tell():\n    if self.tries > 5:\n        restart()\nwhile not done:\n    nap()\n    tell()",
            (".tries", "self"),
        ),
    ],
)
def test_what_a_loop_compares_with_a_limit(tmp_path: Path, loop: str, limits: tuple[str, ...]) -> None:
    found = of_loop(tmp_path, loop)
    assert found
    assert found.limits == limits


NAP = "time.sleep(1)  # nap()"


@pytest.mark.parametrize(
    ("loop", "only_sleeps"),
    [
        (f"while True:\n    log.info('%d', len(jobs))\n    {NAP}", True),
        (f"def report():\n    print(sum(counts))\nwhile True:\n    report()\n    {NAP}", True),
        (f"while True:\n    if connection.poll():\n        serve(connection.recv())\n    {NAP}", False),
        (f"while True:\n    refresh()\n    {NAP}", False),
        (f"def refresh():\n    fetch(url)\nwhile True:\n    refresh()\n    {NAP}", False),
        (f"while not stopped:\n    {NAP}", False),
    ],
    ids=["reports", "reports-in-a-function", "serves", "calls-something", "calls-it-in-a-function", "may-end"],
)
def test_a_loop_that_does_nothing_for_others(tmp_path: Path, loop: str, *, only_sleeps: bool) -> None:
    found = of_loop(tmp_path, loop)
    assert found
    assert found.only_sleeps == only_sleeps


ATTACHES = f"""
while True:
    try:
        return SharedMemory(name)
    except FileNotFoundError:
        looks += 1
        {NAP}
"""

WATCHES = f"""
def changed():
    return os.stat(path).st_mtime
while True:
    if (at := changed()) > seen:
        seen = at
        break
    looks += 1
    {NAP}
"""


@pytest.mark.parametrize(
    ("loop", "only_looks"),
    [
        (f"while not os.path.exists(path):\n    looks += 1\n    {NAP}", True),
        (f"while n - self.taken >= 8:\n    looks += 1\n    if looks == 100:\n        report(looks)\n    {NAP}", True),
        (ATTACHES, True),
        (WATCHES, True),
        (f"while (pid := owner()) is not None:\n    {NAP}\ndef owner():\n    os.kill(pid, 0)\n    return pid", True),
        (f"while os.path.exists(path):\n    os.kill(pid, 15)\n    {NAP}", False),
        (f"while not self.stopped:\n    self.socket.send(reading())\n    self.count += 1\n    {NAP}", False),
        (f"while not self.stopped:\n    shared[0] = version\n    version += 1\n    {NAP}", False),
        (f"while not self.stopped:\n    self.latest = os.stat(path).st_size\n    {NAP}", False),
        (f"while not stop.is_set():\n    work(item)\n    done += 1\n    {NAP}", False),
        (f"while left:\n    jobs.append(left)\n    left = len(jobs)\n    {NAP}", False),
        (f"while True:\n    looks += 1\n    {NAP}", False),
    ],
    ids=[
        "a-file", "a-number-that-others-change", "a-segment", "a-time", "a-pid", "kills", "sends", "writes-to-shared-memory",
        "sets-an-attribute", "works", "gives", "never-ends",
    ],
)  # fmt: skip
def test_a_loop_that_does_nothing_but_look(tmp_path: Path, loop: str, *, only_looks: bool) -> None:
    found = of_loop(tmp_path, loop)
    assert found
    assert found.only_looks == only_looks


GETS = """
while True:
    try:
        results.append(queue.get(timeout=nap()))
    except Empty:
        {}
"""


@pytest.mark.parametrize(
    ("loop", "other_work"),
    [
        ("while not stop.wait(nap()):\n    push(metrics)", True),
        ("while not stop.wait(nap()):\n    push()\ndef push():\n    gateway.send(metrics)", True),
        ("while not stop.wait(nap()):\n    print(len(jobs))", False),
        ("while not stop.wait(nap()):\n    beat.write_text(str(turns))", False),
        ("while not stop.wait(nap()):\n    if os.path.exists(flag):\n        break", False),
        ("while not stop.wait(nap()):\n    for file in os.listdir(folder):\n        os.unlink(file)", True),
        (GETS.format("continue"), False),
        (GETS.format("tasks.put(look_for_more())"), True),
        (GETS.format("if not worker.is_alive():\n            restart(worker)"), False),
        (GETS.format("if time.time() - began > 60:\n            restart(worker)"), False),
        (GETS.format("raise TimeoutError('nothing')"), False),
        (GETS.format("continue\n    work(results)"), False),
        (GETS.format("pass\n    work(results)"), True),
        ("while True:\n    if pipe.poll(nap()):\n        work(pipe.recv())", False),
        ("while True:\n    if pipe.poll(nap()):\n        pipe.recv()\n    else:\n        work()", True),
        ("while True:\n    if not pipe.poll(nap()):\n        continue\n    work(pipe.recv())", False),
        ("while True:\n    for pipe in wait(pipes, nap()):\n        work(pipe.recv())", False),
        ("while True:\n    for pipe in wait(pipes, nap()):\n        pipe.recv()\n    work()", True),
        ("while True:\n    ready = wait(pipes, nap())\n    for pipe in ready:\n        work(pipe.recv())", False),
        ("while True:\n    ready = wait(pipes, nap())\n    if ready:\n        work(ready)", False),
        ("while True:\n    item = take(nap())\n    if item is None:\n        continue\n    work(item)", False),
        ("while True:\n    item = take(nap())\n    if item is not None and item.valid:\n        work(item)", False),
        ("while True:\n    item = take(nap())\n    if item is None:\n        work()", True),
        ("while True:\n    with changed:\n        changed.wait(nap())\n    work()", True),
    ],
)
def test_what_is_done_where_a_wait_has_brought_nothing(tmp_path: Path, loop: str, *, other_work: bool) -> None:
    found = of_loop(tmp_path, loop)
    assert found
    assert found.other_work == other_work


@pytest.mark.parametrize(
    ("test", "tests", "limits"),
    [
        ("time.monotonic() > lease.until", (".until",), ()),
        ("lease.until <= time.time()", (".until",), ()),
        ("time.monotonic() < end", ("?", "monotonic"), (BY_CLOCK, "end", ".monotonic", "time")),
        ("not (time.monotonic() > end)", ("?", "monotonic"), (BY_CLOCK, "end", ".monotonic", "time")),
        ("not done or time.monotonic() > end", ("?", "monotonic"), (BY_CLOCK, "end", ".monotonic", "time")),
    ],
)
def test_a_time_that_has_passed_stays_so(
    tmp_path: Path, test: str, tests: tuple[str, ...], limits: tuple[str, ...]
) -> None:
    found = of_loop(tmp_path, f"while {test}:\n    {NAP}")
    assert found
    assert (found.tests, found.limits) == (tests, tuple(sorted(limits)))


@pytest.mark.parametrize(
    ("loop", "only_reports"),
    [
        (f"while True:\n    print(queue.qsize(), queue.full())\n    {NAP}", True),
        (f"while True:\n    if queue.full():\n        queue.get_nowait()\n    {NAP}", False),
        (f"while True:\n    if queue.full():\n        drain(queue)\n    {NAP}", False),
        (f"while True:\n    print(len(jobs))\n    if stop.is_set():\n        break\n    {NAP}", False),
        (f"async def run():\n    while True:\n        await store.save()\n        {NAP}", False),
        ("async def run():\n    while True:\n        await asyncio.sleep(1)  # nap()", True),
    ],
)
def test_a_task_that_only_reports(tmp_path: Path, loop: str, *, only_reports: bool) -> None:
    found = of_loop(tmp_path, loop)
    assert found
    assert found.only_reports == only_reports


def test_modules_and_functions_are_no_variables_that_others_may_share(tmp_path: Path) -> None:
    polls = of_loop(
        tmp_path,
        "import os\ndef done(): return os.path.exists(mark)\nwhile not done():\n    time.sleep(1)  # nap()\n",
    )
    beats = of_loop(
        tmp_path,
        "import os\nwhile True:\n    open(os.path.join(home, 'beat'), 'w').write('x')\n    time.sleep(1)  # nap()\n",
    )
    assert polls
    assert polls.polls_for == ("mark",)
    assert beats
    assert beats.books == ("home",)


@pytest.mark.parametrize(
    ("loop", "polls"),
    [
        ("for turn in itertools.count():\n    if ready.is_set():\n        break\n    nap()", True),
        ("for turn in count(1):\n    if turn > 9:\n        break\n    nap()", False),
        ("for turn in range(9):\n    if ready.is_set():\n        break\n    nap()", None),
    ],
)  # fmt: skip
def test_a_loop_over_a_count_that_never_ends_is_a_while_loop(tmp_path: Path, loop: str, *, polls: bool | None) -> None:
    found = of_loop(tmp_path, loop.replace("nap()", "sleep(1)  # nap()"))
    assert (found and found.polls_for is not None) is polls


def test_a_method_is_that_of_the_class_around_the_loop(tmp_path: Path) -> None:
    found = of_loop(
        tmp_path,
        "class Beat:\n    def run(self):\n        while self.on:\n            self.tick()\n            sleep(1)  # nap()\n"
        "    def tick(self):\n        self.beats += 1\nclass Work:\n    def tick(self):\n        transform(self)\n",
    )
    assert found
    assert (found.polls_for, found.books) == ((".on",), (".beats",))


def test_a_loop_in_a_function_is_found(tmp_path: Path) -> None:
    source = """
        class Sweep:
            def finish(self):
                while self.future.done() is False:
                    nap()
    """
    assert of_loop(tmp_path, source) == Loop(("done",), acts=True, only_sleeps=False, only_looks=False, limits=())


def test_a_file_that_was_written_after_the_program_began_is_not_what_runs(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("while child.poll() is None:\n    nap()\n")
    with sleeper(SLEEPS) as job:
        place = (str(file), 2)
        assert loops_around(Proc(), job.pid, [place]) == {
            place: Loop(("poll",), acts=True, only_sleeps=False, only_looks=False, limits=())
        }
        os.utime(file, (time.time() + 60, time.time() + 60))
        assert loops_around(Proc(), job.pid, [place]) == {}


def test_a_fork_runs_what_its_parent_has_read(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("while child.poll() is None:\n    nap()\n")
    os.utime(file, (time.time() + 0.9, time.time() + 0.9))
    child = os.fork()
    if not child:
        while True:
            signal.pause()
    try:
        assert loops_around(Proc(), child, [(str(file), 2)]) == {}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    "text", [b"while (", b"\0", b"(" * 100_000, b"x = 1\n" * LARGEST_SOURCE], ids=["cut", "zero", "deep", "long"]
)
def test_what_is_no_source_tells_nothing(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "job.py"
    file.write_bytes(text)
    os.utime(file, (0, 0))
    assert loops_around(Proc(), os.getpid(), [(str(file), 1)]) == {}


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.py")
    assert loops_around(Proc(), os.getpid(), [(str(tmp_path / "job.py"), 1), ("<stdin>", 1)]) == {}


@pytest.mark.parametrize(
    ("body", "acts"),
    [
        ("nap()", True),
        ("time.sleep(1)  # nap()", False),
        ("log.info('alive %d', len(workers)); time.sleep(1)  # nap()", False),
        ("if any(not w.is_alive() for w in workers): restart()\n    time.sleep(1)  # nap()", False),
        ("for name in os.listdir(inbox): tasks.put(name)\n    time.sleep(1)  # nap()", True),
        ("if done.poll():\n        handle(done.recv())\n    time.sleep(1)  # nap()", False),
        (
            "try:\n        x = q.get_nowait()\n    except Empty:\n        sleep(1)  # nap()\n        continue\n    save(x)",
            False,
        ),
        ("look(); time.sleep(1)  # nap()\ndef look():\n    return glob('*')", True),
        ("handlers[0](); time.sleep(1)  # nap()", True),
        ("count(); time.sleep(1)  # nap()\ndef count():\n    return len(workers)", False),
    ],
)
def test_a_loop_that_may_bring_something_in_from_outside(tmp_path: Path, body: str, *, acts: bool) -> None:
    found = of_loop(tmp_path, f"while True:\n    {body}")
    assert found
    assert (found.tests, found.acts) == (("get_nowait",) if "get_nowait" in body else (), acts)
