"""What loops carry from one turn to the next, by their source."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import indent

import pytest

from mpmon.model import BY_CLOCK, ONLY_COUNTED, SOURCE_NOT_KNOWN, UNSEEN
from mpmon.probes.carried import MOST_LOOPS, MOST_NODES, carried
from mpmon.probes.files import Proc

GIVEN = "a b began best d done few found free it key left limit lock model most n self size steps table total width x"


def at_work(folder: Path, body: str, *, above: str = "", known: bool = True) -> set[str] | None:
    """What the loops around the line with `work` carry, in a function with these lines, as if this process had read the file when
    it began.
    """
    file = folder / f"job{len(list(folder.iterdir()))}.py"
    source = f"{above}\ndef task({', '.join(GIVEN.split())}):\n{indent(body, '    ')}\n"
    file.write_text(source)
    if known:
        os.utime(file, (0, 0))
    line = next(number for number, row in enumerate(source.splitlines(), 1) if "# work" in row)
    found = carried(Proc(), os.getpid(), [(str(file), line)]).get((str(file), line))
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("loop", "names"),
    [
        ("while n != 1:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1  # work", {"n"}),
        ("while n < limit:\n    total += n * n  # work\n    n += 1", {"n", "total"}),
        ("while not done:\n    y = x * 0.9  # work\n    done = abs(y - x) < 1e-9\n    x = y", {"done", "x"}),
        ("while True:\n    x = 2 * x  # work\n    if x > best:\n        best = x", {"x", "best"}),
        ("for k in it:\n    while d * d <= n:  # work\n        d += 1", {"d"}),
        ("while a:\n    a, b = b, a % b  # work", {"a", "b"}),
        ("while True:\n    match x:  # work\n        case 1:\n            key = x\n    print(key)", {"key"}),
        ("while free:\n    bit = free & -free  # work\n    free ^= bit", {"free"}),
    ],
)
def test_what_one_turn_leaves_for_the_next(tmp_path: Path, loop: str, names: set[str]) -> None:
    assert at_work(tmp_path, loop) == names


def test_constants_and_the_variables_of_a_generator_are_not_carried(tmp_path: Path) -> None:
    loop = (
        "while n < left:\n    best = max((k for k, t in enumerate(a) if t == LAST), default=0)  # work\n    n += best"
    )
    assert at_work(tmp_path, loop, above="LAST, SIZE = 1, 32") == {"a", "n"}
    assert at_work(tmp_path, loop, above="LAST = list()") == {"a", "n", UNSEEN}


@pytest.mark.parametrize(
    "loop",
    [
        "while len(found) < 2:\n    at = 3 * 7  # work\n    if at == 4:\n        break",
        "while True:\n    if (at := 3 * 7) == 4:  # work\n        break",
        "while True:\n    with lock:\n        at = 4  # work\n    if at in [x for x in few]:\n        break",
        "while True:\n    if key:\n        at = 1  # work\n    else:\n        at = 2\n    print(at)",
    ],
)
def test_what_each_turn_sets_anew_is_not_carried(tmp_path: Path, loop: str) -> None:
    assert "at" not in (at_work(tmp_path, loop) or set())


@pytest.mark.parametrize(
    ("loop", "names"),
    [
        ("while not model[x]:\n    x = random.randrange(50)  # work", {"model"}),
        ("while not model[x]:\n    x = draw()  # work", {"model"}),
        ("while n < best:\n    n = n + random.random()  # work", {"n"}),
        ("while n < best:\n    x = n + random.random()  # work\n    if x > n:\n        n = x", {"n"}),
        ("while not model[x]:\n    x = random.choice(free)  # work\n    free.remove(x)", {"free", "model"}),
    ],
    ids=["a number", "of a function", "added up", "the best one", "of what is left"],
)
def test_what_is_drawn_at_random_is_not_carried(tmp_path: Path, loop: str, names: set[str]) -> None:
    found = at_work(tmp_path, loop, above="import random\ndef draw():\n    return random.randint(1, 9)")
    assert found is not None
    assert found - {"model"} == names - {"model"}


def test_a_count_is_carried_if_it_is_read_other_than_to_log_it(tmp_path: Path) -> None:
    assert at_work(tmp_path, "while n != 1:\n    steps += 1  # work") == set()
    assert at_work(tmp_path, "while n != 1:\n    steps += 1  # work\n    print(steps)") == set()
    assert (
        at_work(tmp_path, "while n != 1:\n    steps += 1  # work\n    if steps % 9 == 0:\n        print(steps)")
        == set()
    )
    assert at_work(tmp_path, "while True:\n    if model(steps):  # work\n        last = steps\n    steps += 1") == {
        "steps"
    }
    assert at_work(tmp_path, "while steps < most:\n    steps += 1  # work") == {"steps"}
    assert at_work(tmp_path, "while True:\n    if digest(steps).startswith('00'): break  # work\n    steps += 1",
                   above="from lib import digest") == {"steps"}  # fmt: skip
    assert at_work(tmp_path, "while True:\n    x = table[steps]  # work\n    steps += 1") == {"steps"}
    assert at_work(tmp_path, "while True:\n    self.steps += 1  # work") == {"self", f"{ONLY_COUNTED}.steps"}
    assert at_work(tmp_path, "while True:\n    size += width  # work") == {"size"}


def test_what_a_call_may_change_is_carried(tmp_path: Path) -> None:
    assert at_work(tmp_path, "while left:\n    left.pop()  # work") == {"left"}
    assert at_work(tmp_path, "while True:\n    step(model)  # work", above="from lib import step") == {"model"}
    assert at_work(tmp_path, "while True:\n    table[key] = 1  # work") == {"table", "key"}
    assert at_work(tmp_path, "while True:\n    self.at = 1  # work") == {"self"}
    assert at_work(tmp_path, "while True:\n    x = next(it)  # work") == {"it"}


def test_what_is_carried_elsewhere_is_not_seen(tmp_path: Path) -> None:
    """Variables of the module, and of functions around it."""
    counts = "N = 1\ndef step():\n    global N\n    N = N * 3 + 1\n"
    assert at_work(tmp_path, "while n:\n    step()  # work", above=counts) == {UNSEEN}
    assert at_work(tmp_path, "while n:\n    cache.append(1)  # work", above="cache = []") == {UNSEEN}
    assert at_work(tmp_path, "while n:\n    random.random()  # work", above="import random") == set()
    inner = "def step():\n    nonlocal x\n    x = 2 * x\nwhile n:\n    step()  # work"
    assert at_work(tmp_path, inner) == {UNSEEN}


def test_a_clock_is_told(tmp_path: Path) -> None:
    found = at_work(tmp_path, "while time.time() - began < 5:\n    x = 1  # work")
    assert found is not None
    assert BY_CLOCK in found


def test_in_no_loop(tmp_path: Path) -> None:
    assert at_work(tmp_path, "x = 1  # work") is None
    assert at_work(tmp_path, "while True:\n    def step():\n        return 1  # work") is None


def test_a_source_that_is_not_the_one_that_runs_tells_nothing(tmp_path: Path) -> None:
    assert at_work(tmp_path, "while True:\n    x += 1  # work", known=False) == set(SOURCE_NOT_KNOWN)


def test_a_loop_without_end_of_its_source_is_not_read(tmp_path: Path) -> None:
    lines = "\n".join("    x = x + 1" for _ in range(MOST_NODES // 4))
    assert at_work(tmp_path, f"while True:\n    x += width  # work\n{lines}") == set(SOURCE_NOT_KNOWN)
    deep = "\n".join(f"{' ' * at}while x:" for at in range(MOST_LOOPS + 1))
    assert at_work(tmp_path, f"{deep}\n{' ' * (MOST_LOOPS + 1)}x += 1  # work") == set(SOURCE_NOT_KNOWN)
