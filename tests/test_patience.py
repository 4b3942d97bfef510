"""Waiting as long as it takes on a machine that has others to serve."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.patience import Counted, becomes, counted, patience, ran, rest_of, status_of

BURNS = "import time; input(); [None for _ in iter(lambda: time.process_time() > 0.3, True)]"


@pytest.mark.parametrize(("queued_s", "counts_s"), [(0.0, 10.0), (8.0, 2.0), (9.5, 1.0), (40.0, 1.0)])
def test_what_was_spent_in_the_queue_hardly_counts(queued_s: float, counts_s: float) -> None:
    assert counted(10.0, queued_s) == counts_s


def test_two_that_share_a_cpu_have_waited_for_it() -> None:
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    try:
        both = [
            subprocess.Popen([sys.executable, "-c", f"{BURNS}; print(); input()"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
            for _ in range(2)
        ]  # fmt: skip
    finally:
        os.sched_setaffinity(0, own)
    watch, began = Counted(), time.monotonic()
    for process in both:
        assert process.stdin
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in both:
        assert process.stdout
        assert process.stdout.readline()
    passed = time.monotonic() - began
    assert watch.read() < passed - 0.2
    for process in both:
        rest_of(process, b"end\n")


def test_it_has_an_end() -> None:
    for pause in patience(0.2, 0.05):
        time.sleep(pause)
    assert not becomes(lambda: False, seconds=0.1)
    assert becomes(lambda: True, seconds=0.0)


def test_what_does_not_end_is_said_and_ended() -> None:
    with pytest.raises(AssertionError, match="does not end"):
        ran(["sleep", "1000"], seconds=0.1)
    with subprocess.Popen(["sleep", "1000"]) as process:
        with pytest.raises(AssertionError, match="does not end"):
            status_of(process, 0.1)
        process.kill()


def test_what_a_program_says_is_whole_however_often_it_is_asked() -> None:
    code = "import sys, time; print('a', flush=True); time.sleep(1.2); print(sys.stdin.read(), end='')"
    assert ran([sys.executable, "-c", code], said="b" * 200_000).stdout == "a\n" + "b" * 200_000
