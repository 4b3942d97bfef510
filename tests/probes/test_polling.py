"""Which loops only poll, by their source."""

from __future__ import annotations

import ast

import pytest

from mpmon.probes.polling import books, keeps_books, polls_for
from mpmon.probes.sources import Source

POLLS = {
    "nothing else": "while not ready():\n    sleep(1)",
    "a count": "while not ready():\n    tries += 1\n    sleep(1)",
    "a count that it logs": "while not ready():\n    tries += 1\n    if tries % 10 == 0:\n        print(tries)\n    sleep(1)",
    "a longer pause each time": "while not ready():\n    sleep(pause)\n    pause = min(pause * 2, 30)",
    "a random pause": "while not ready():\n    sleep(pause + random.random())",
    "the time": "while not ready():\n    self.seen_at = time.time()\n    sleep(1)",
    "a list of times": "while not ready():\n    seen.append(time.time())\n    sleep(1)",
    "a count in a dictionary": "while not ready():\n    stats['polls'] += 1\n    sleep(1)",
    "a sign of life": "while not ready():\n    Path('beat').write_text(str(time.time()))\n    sleep(1)",
    "a line each few seconds": (
        "while not ready():\n    if time.time() - told > 5:\n        told = time.time()\n        print('waits')\n    sleep(1)"
    ),
    "an answer of each turn": "while True:\n    state = look()\n    if state == 'done':\n        break\n    sleep(1)",
    "a file of each turn": (
        "while True:\n    with open('state') as file:\n        if file.read() == 'done':\n            return\n    sleep(1)"
    ),
    "what is tried": (
        "while True:\n    try:\n        found = connect(address)\n        break\n    except OSError:\n        sleep(1)"
    ),
    "a wait with a limit": "while not event.wait(1):\n    tries += 1  # sleep(1)",
    "a task that sleeps": "while not ready():\n    tries += 1\n    await asyncio.sleep(1)",
    "a file of JSON": "while not ready():\n    json.dump(stats, file)\n    sleep(1)",
    "a lock": "while not lock.acquire(timeout=1):\n    self.tries += 1",
}  # fmt: skip

WORKS = {
    "takes from a list": "while pages:\n    page = pages.pop()\n    sleep(1)",
    "counts to its end": "while tries < 100:\n    tries += 1\n    sleep(1)",
    "the same in an attribute": "while self.tries < 100:\n    self.tries += 1\n    sleep(1)",
    "the same of another name": "while job.left:\n    step()\n    sleep(1)\ndef step(self):\n    self.left -= 1",
    "asked for by a method": (
        "while not done():\n    step()\n    sleep(1)\ndef done(self):\n    return self.n > 9\ndef step(self):\n    self.n += 1"
    ),
    "a variable of the module": "while n < 100:\n    step()\n    sleep(1)\ndef step():\n    global n\n    n += 1",
    "what is passed on": "while state['n'] < 9:\n    step(state)\n    sleep(1)\ndef step(row):\n    row['n'] += 1",
    "until chance ends it": "while random.random() < 0.9:\n    sleep(1)",
    "until a time": "while time.time() < end:\n    sleep(1)",
    "until a time that it notes": "while True:\n    late = time.time() > end\n    if late:\n        break\n    sleep(1)",
    "tokens that come with time": (
        "while not take():\n    sleep(1)\ndef take(self):\n    self.tokens = time.time() - self.at\n    return self.tokens > 1"
    ),
    "reads on": "while True:\n    line = file.readline()\n    if not line:\n        break\n    sleep(1)",
    "collects": "while len(found) < 9:\n    found.append(look())\n    sleep(1)",
    "calls something unknown": "while not ready():\n    work()\n    sleep(1)",
    "takes what others wait for": "while not ready():\n    if not tasks.empty():\n        tasks.get_nowait()\n    sleep(1)",
    "gives up": "while not ready():\n    tries += 1\n    if tries > 9:\n        raise TimeoutError\n    sleep(1)",
    "is never left": "while True:\n    sleep(1)",
    "lets others run": "while not ready():\n    await pause()  # sleep(1)",
}  # fmt: skip

LOOKS = """
def ready():
    return exists("here")
def look():
    return getsize("here")
def connect(address):
    return create_connection(address)
"""


BOOKS = {
    "what it counts": ("while True:\n    self.pages += 1\n    sleep(1)", (".pages",)),
    "what it collects": ("while not stop.is_set():\n    pages.append(1)\n    sleep(1)", ("pages",)),
    "what items are in": ("while True:\n    state['step'] += 1\n    sleep(1)", ("state",)),
    "a variable of the module": ("while True:\n    step()\n    sleep(1)\ndef step():\n    global done\n    done += 1", ("done",)),
    "a file that it writes": ("while True:\n    open(beat, 'a').write('x')\n    sleep(1)", ("beat",)),
    "a path that it touches": ("while True:\n    Path(self.mark).touch()\n    sleep(1)", ("Path", ".mark", "self")),
    "not a file that it reads": ("while True:\n    text = open(state).read()\n    sleep(1)", ()),
    "not the time": ("while True:\n    self.seen_at = time.time()\n    sleep(1)", ()),
    "not its own variables": ("while not ready():\n    tries += 1\n    sleep(1)", ()),
}  # fmt: skip


BEATS = {
    "counts": "while True:\n    beats += 1\n    sleep(1)",
    "tells others": "while True:\n    reports.put((os.getpid(), time.time()))\n    sleep(1)",
    "writes a line": "while True:\n    print('alive', time.time())\n    sleep(1)",
    "writes its state": "while True:\n    json.dump(state, open(os.environ.get('STATUS', 'x'), 'w'))\n    sleep(1)",
    "measures": "while True:\n    used.append(open('/proc/self/statm').read())\n    sleep(1)",
    "sets an event": "while True:\n    ready.set()\n    sleep(1)",
    "collects": "while True:\n    found.append(results.get())\n    sleep(1)",
    "passes on": "while True:\n    results.put(buffer.pop())\n    sleep(1)",
    "works": "while True:\n    results.put(measure())\n    sleep(1)",
    "is left": "while True:\n    if ready():\n        break\n    sleep(1)",
}
"""Loops of threads; the first five only report that they live."""

WAITS = ("sleep(", "wait(", "acquire(")


def parsed(loop: str) -> tuple[ast.While, int, Source]:
    """The loop, and the line at which it waits."""
    text = f"{LOOKS}{loop}"
    source = Source(ast.parse(text))
    line = next(number for number, row in enumerate(text.splitlines(), 1) if any(word in row for word in WAITS))
    found = next(node for node in ast.walk(source.tree) if isinstance(node, ast.While))
    return found, line, source


def polls(loop: str) -> bool:
    found, line, source = parsed(loop)
    return polls_for(found, line, source.functions) is not None


@pytest.mark.parametrize("loop", POLLS.values(), ids=POLLS)
def test_one_that_looks_and_keeps_books_only_polls(loop: str) -> None:
    assert polls(loop)


@pytest.mark.parametrize("loop", WORKS.values(), ids=WORKS)
def test_one_that_depends_on_what_it_does_itself_gets_on(loop: str) -> None:
    assert not polls(loop)


@pytest.mark.parametrize(("name", "only"), [(name, place < 5) for place, name in enumerate(BEATS)], ids=BEATS)
def test_which_loops_only_report_that_they_live(name: str, *, only: bool) -> None:
    found, line, source = parsed(BEATS[name])
    assert keeps_books(found, line, source.functions) is only


def test_what_one_asks_for() -> None:
    found, line, source = parsed(
        "while len(results) < total:\n    tries += 1\n    watch.last = time.time()\n    sleep(1)"
    )
    assert polls_for(found, line, source.functions) == ("len", "results", "total")


def test_one_asks_for_no_object_into_which_its_methods_write_its_books() -> None:
    found, line, source = parsed("while self.running:\n    tick()\n    sleep(1)\ndef tick(self):\n    self.ticks += 1")
    assert polls_for(found, line, source.functions) == (".running",)


def test_one_asks_for_attributes_as_well_but_not_for_methods() -> None:
    found, line, source = parsed("while self.job.state != 'done' and not os.path.exists(mark):\n    sleep(1)")
    assert polls_for(found, line, source.functions) == (".job", ".state", "mark", "os", "self")


@pytest.mark.parametrize(("loop", "names"), BOOKS.values(), ids=BOOKS)
def test_what_others_may_ask_for(loop: str, names: tuple[str, ...]) -> None:
    found, line, source = parsed(loop)
    assert set(books(found, line, source.functions)) == set(names)
