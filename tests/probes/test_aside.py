"""The helper that makes calls which may never return, with calls that really do not: a FIFO that nobody writes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from mpmon.model import Snapshot
from mpmon.probes.aside import Aside, Unanswered, client, in_turn, may_hang
from mpmon.probes.aside.hosted import hosted
from mpmon.probes.files import Proc
from mpmon.probes.interpreter import look_inside
from mpmon.probes.ipc import IpcProbe
from mpmon.probes.processes import ProcessTable
from tests.patience import NEVER_S
from tests.sleepers import sleeper

PATIENCE_S = 0.3


@pytest.fixture
def aside() -> Iterator[Aside]:
    made = Aside(patience_s=PATIENCE_S)
    yield made
    made.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def test_a_call_is_made_in_another_process(aside: Aside) -> None:
    assert aside.call(os.getpid) == aside.pid != os.getpid()


def test_what_a_call_raises_is_raised(aside: Aside) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        aside.call(os.stat, "/gone")
    assert refused.value.errno == errno.ENOENT


def test_a_call_that_does_not_return_is_given_up_and_others_are_made(aside: Aside, fifo: Path) -> None:
    with pytest.raises(Unanswered, match="no answer for"):
        aside.call(os.open, fifo, os.O_RDONLY)
    assert aside.call(os.path.basename, fifo) == "fifo"


def test_the_same_question_is_not_asked_again_while_it_has_no_answer(aside: Aside, fifo: Path) -> None:
    """The second argument says what is asked about."""
    for _ in range(3):
        with pytest.raises(Unanswered):
            aside.call(os.open, fifo, os.O_RDONLY)
    assert len(os.listdir(f"/proc/{aside.pid}/task")) == 2, "one that is left behind, one that listens"


def test_a_question_may_be_asked_again_when_its_answer_has_come_late(aside: Aside, fifo: Path) -> None:
    with pytest.raises(Unanswered):
        aside.call(os.open, os.fspath(fifo), os.O_RDONLY)
    writer = os.open(fifo, os.O_WRONLY)
    opened = 0
    while not opened:
        with suppress(Unanswered):  # the late answer has not come yet
            opened = aside.call(os.open, os.fspath(fifo), os.O_RDONLY)
    os.close(writer)


@may_hang
def told(_proc: Proc, pid: int, *, fifo: Path | None = None) -> tuple[int, int]:
    """The pid and who was asked; with a FIFO not before somebody opens it, and nothing of one that is gone."""
    if fifo:
        os.close(os.open(fifo, os.O_RDONLY))
    if pid == GONE:
        raise ProcessLookupError(errno.ESRCH, "gone")
    return pid, os.getpid()


GONE = 7


def answers(aside: Aside, **questions: dict[str, object]) -> dict[int, object]:
    found = in_turn(told, Proc(aside=aside), {int(pid[1:]): more for pid, more in questions.items()})
    return {pid: type(answer) if isinstance(answer, OSError) else answer for pid, answer in found.items()}


def test_many_questions_are_one_call(aside: Aside) -> None:
    call, calls = aside.call, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aside, "call", lambda *given: calls.append(given) or call(*given))
        found = answers(aside, p5={}, p7={}, p9={})
    assert found == {5: (5, aside.pid), GONE: ProcessLookupError, 9: (9, aside.pid)}
    assert len(calls) == 1


def test_one_of_many_that_has_no_answer_costs_the_others_nothing(aside: Aside, fifo: Path) -> None:
    for _ in range(2):
        found = answers(aside, p5={}, p6={"fifo": fifo}, p9={})
        assert found == {5: (5, aside.pid), 6: Unanswered, 9: (9, aside.pid)}
    # Both that were left behind go on: the one with all questions, and the one about 6 alone.
    os.close(os.open(fifo, os.O_WRONLY))
    while aside.leaves(told, [6]):
        aside.call(os.getpid)
    assert answers(aside, p5={}, p6={}) == {5: (5, aside.pid), 6: (6, aside.pid)}


def test_a_call_that_takes_long_is_waited_for_as_long_as_it_works(aside: Aside) -> None:
    """It turns a large number into text, which takes several times the patience."""
    assert aside.call(pow, 3, 20_000_000, 1 << 2_000) >= 0


def test_a_helper_that_was_killed_is_started_again(aside: Aside) -> None:
    aside.start()
    killed = aside.pid
    os.kill(killed or 0, 9)
    # Whoever asks before the end shows is told; whoever asks later asks another one.
    with suppress(Unanswered):
        aside.call(os.getpid)
    assert aside.call(os.getpid) == aside.pid != killed


def test_the_end_does_not_wait_for_a_call(aside: Aside, fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "END_S", NEVER_S)
    aside.start()
    helper = aside.pid
    aside.post(os.open, os.fspath(fifo), os.O_RDONLY)
    aside.close()
    assert not os.path.exists(f"/proc/{helper}")
    with pytest.raises(Unanswered):
        aside.call(os.getpid)


def test_the_helper_ends_with_mpmon_however_that_ends() -> None:
    program = "from mpmon.probes.aside import Aside; a = Aside(); a.start(); print(a.pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as mpmon:
        assert mpmon.stdout
        helper = int(mpmon.stdout.readline())
        mpmon.kill()
        mpmon.wait()
    while os.path.exists(f"/proc/{helper}/exe"):
        time.sleep(0.01)


def test_what_may_hang_is_done_in_place_where_there_is_no_helper(aside: Aside) -> None:
    with sleeper() as child:
        here = look_inside(Proc(), child.pid, {})
        assert here.unknown is None
        assert look_inside(Proc(aside=aside), child.pid, {}) == here
        assert aside.cpu_s > 0


# Probes that live there


def test_a_probe_in_the_helper_says_what_it_says_here(aside: Aside) -> None:
    with sleeper() as child:
        found = [_shared_memory(proc, child.pid) for proc in (Proc(), Proc(aside=aside))]
    assert found[0].limits
    assert found[0].limits == found[1].limits
    # How full it is, others of this machine change meanwhile.
    here, there = ([msgspec.structs.replace(row, used_bytes=0) for row in snapshot.shared_memory] for snapshot in found)
    assert here == there


def test_tables_that_did_not_change_stay_the_very_same(aside: Aside) -> None:
    proc = Proc(aside=aside)
    with sleeper() as child:
        table = ProcessTable(proc, child.pid)
        probe = hosted(proc, IpcProbe, "shared memory", eager=True, settings={"eager": True})
        first, second = (probe.add(_snapshot(table, at)) for at in (1.0, 2.0))
        assert first.limits is second.limits


def test_a_probe_in_a_helper_that_another_call_started_again_begins_anew(aside: Aside) -> None:
    proc = Proc(aside=aside)
    with sleeper() as child:
        table = ProcessTable(proc, child.pid)
        probe = hosted(proc, IpcProbe, "shared memory", eager=True, settings={"eager": True})
        first = _snapshot(table, 1.0)
        limits = probe.add(first).limits
        os.kill(aside.pid or 0, 9)
        with suppress(Unanswered):
            aside.call(os.getpid)
        aside.call(os.getpid)
        # The very same process, of which a helper that knew it would only be told that it ran.
        ran = tuple(msgspec.structs.replace(row) for row in first.processes)
        assert probe.add(msgspec.structs.replace(first, taken_at=2.0, processes=ran)).limits == limits


def _shared_memory(proc: Proc, pid: int) -> Snapshot:
    probe = hosted(proc, IpcProbe, "shared memory", eager=True, settings={"eager": True})
    return probe.add(_snapshot(ProcessTable(proc, pid), 1.0))


def _snapshot(table: ProcessTable, at: float) -> Snapshot:
    processes, threads = table.look(at)
    return Snapshot(
        taken_at=at, root_pid=table.root_pid, root_start_time=table.root_start_time, processes=processes,
        threads=threads,
    )  # fmt: skip
