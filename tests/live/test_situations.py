"""mpmon attached to small real programs, one situation each."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Finding, Observation, Verdict
from mpmon.model import Process
from mpmon.probes.files import Proc
from mpmon.probes.kernel import KernelLook
from mpmon.probes.stacks import StackProbe
from tests.live.running import Program, py_spies, sampler, watch
from tests.patience import becomes
from tests.probes.native.looks import only_x86_64

pytestmark = pytest.mark.live


def hung(seen: Observation) -> Finding:
    assert seen.diagnosis.verdict is Verdict.HUNG, seen.diagnosis.because
    return seen.diagnosis.findings[0]


def rows(seen: Observation | None = None, *, processes: tuple[Process, ...] = ()) -> dict[int, Process]:
    return {row.pid: row for row in (seen.snapshot.processes if seen else processes)}


def check_suspect(finding: Finding, program: Program, role: str) -> None:
    """The child alone must move first, at the marked line."""
    (suspect,) = finding.suspects
    assert (suspect.pid, suspect.role, suspect.dead) == (program.pids["child"], role, False)
    assert suspect.frame is not None
    assert (Path(suspect.frame.file), suspect.frame.line) == (program.file, program.line())


def test_a_pool_worker_that_does_not_come_back() -> None:
    with Program("pool_worker.py").hear("child") as program:
        finding = hung(watch(program.pid))
        assert finding.cause == "worker-stuck"
        assert finding.suspects[0].role.startswith("pool worker ")
        check_suspect(finding, program, finding.suspects[0].role)


def test_a_consumer_whose_producer_waits_for_it() -> None:
    with Program("queue_consumer.py").hear("child") as program:
        seen = watch(program.pid)
        finding = hung(seen)
        involved = {row.pid for row in (*finding.suspects, *finding.waiters)}
        assert involved == {program.pid, program.pids["child"]}
        views = {view.pid: view.role for view in seen.diagnosis.processes}
        assert views[program.pids["child"]] == "process consume"


def test_a_stopped_child() -> None:
    with Program("stopped_child.py").hear("child") as program:
        seen = watch(program.pid)
        finding = hung(seen)
        assert finding.cause == "stopped"
        assert [row.pid for row in finding.suspects] == [program.pids["child"]]
        assert rows(seen)[program.pids["child"]].state == "T"


def test_looking_at_a_stopped_child_leaves_it_stopped() -> None:
    with Program("stopped_child.py").hear("child") as program:
        looking = sampler(program.pid)
        seen = [looking.round() for _ in range(3)]
        looking.close()
        assert {rows(processes=each.processes)[program.pids["child"]].state for each in seen} == {"T"}


def test_a_lock_that_was_held_at_the_fork() -> None:
    with Program("fork_lock.py").hear("child") as program:
        finding = hung(watch(program.pid))
        assert finding.cause == "fork-lock"
        check_suspect(finding, program, "process work")


@only_x86_64
def test_a_semaphore_of_c_code_in_the_child_of_a_fork_is_told_from_a_lock_by_its_frames() -> None:
    with Program("fork_semaphore.py").hear("child") as program:
        seen = watch(program.pid)
        finding = hung(seen)
        assert finding.cause == "native-hang"
        assert "sem_wait" in finding.summary
        check_suspect(finding, program, "process work")
        assert program.pids["child"] in {row.pid for row in seen.snapshot.native_stacks}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_each_start_method(method: str) -> None:
    with Program("started_child.py", method).hear("child") as program:
        seen = watch(program.pid)
        check_suspect(hung(seen), program, "process nap")
        views = {view.pid: view for view in seen.diagnosis.processes}
        assert views[program.pids["child"]].parent == program.pid
        helpers = {"fork": set(), "spawn": {"resource tracker"}, "forkserver": {"resource tracker", "forkserver"}}
        assert {view.role for view in views.values()} == {"main", "process nap"} | helpers[method]


def test_a_child_that_shows_no_target_has_the_name_of_its_process() -> None:
    with Program("named_child.py").hear("child") as program:
        seen = watch(program.pid)
        check_suspect(hung(seen), program, "process pressure gauge")
        views = {view.pid: view.role for view in seen.diagnosis.processes}
        assert set(views.values()) == {"main", "process pressure gauge", "resource tracker"}


def test_a_program_that_works_is_healthy() -> None:
    with Program("works.py").hear("ready") as program:
        seen = watch(program.pid, seconds=8.0)
        assert seen.diagnosis.verdict is Verdict.HEALTHY, seen.diagnosis.because


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_a_real_loader_whose_worker_sleeps() -> None:
    pytest.importorskip("torch")
    with Program("loader.py").hear("child") as program:
        seen = watch(program.pid)
        finding = hung(seen)
        assert finding.cause == "worker-stuck"
        check_suspect(finding, program, "dataloader worker 1")
        assert [row.pid for row in finding.waiters] == [program.pid]


# The tree


def test_a_child_that_changed_its_session_stays() -> None:
    with Program("family.py", "session").hear("child", "grandchild") as program:
        looking = sampler(program.pid)
        looking.round()
        program.tell()
        program.hear("done")
        found = rows(processes=looking.round().processes)
        looking.close()
        assert found[program.pids["child"]].sid == program.pids["child"]
        assert set(found) == {program.pid, program.pids["child"], program.pids["grandchild"]}


def test_a_grandchild_stays_when_its_parent_ends() -> None:
    with Program("family.py", "leave").hear("child", "grandchild") as program:
        looking = sampler(program.pid)
        looking.round()
        program.tell()
        program.hear("done")
        now = looking.round()
        looking.close()
        found = rows(processes=now.processes)
        assert set(found) == {program.pid, program.pids["grandchild"]}
        assert found[program.pids["grandchild"]].ppid not in found
        assert [row.pid for row in now.exits] == [program.pids["child"]]


def test_a_grandchild_that_lost_its_parent_before_mpmon_came_is_found() -> None:
    with Program("family.py", "leave").hear("child", "grandchild") as program:
        program.tell()
        program.hear("done")
        looking = sampler(program.pid)
        found = rows(processes=looking.round().processes)
        looking.close()
        assert set(found) == {program.pid, program.pids["grandchild"]}


def test_a_child_that_becomes_another_program() -> None:
    with Program("family.py", "exec").hear("child", "grandchild") as program:
        child = program.pids["child"]
        looking = sampler(program.pid)
        before = rows(processes=looking.round().processes)[child]
        program.tell()
        program.hear("done")
        now = before
        # In the midst of execve(2) the name is the new one, and there are no arguments.
        while now.name == before.name or not any(now.cmdline):
            now = rows(processes=looking.round().processes)[child]
        looking.close()
        assert (now.name, now.cmdline) == ("sleep", ("sleep", "1000"))
        assert now.key == before.key


# The dead and the strange


def test_a_process_that_vanishes_during_the_look() -> None:
    with Program("family.py", "session").hear("child", "grandchild") as program:
        looking = sampler(program.pid)
        looking.round()
        os.kill(program.pids["grandchild"], signal.SIGKILL)
        os.kill(program.pids["child"], signal.SIGKILL)
        kernel = KernelLook(Proc(), 7.0)
        pids = list(program.pids.values())
        kernel.look(pids)
        stacks, unknowns = StackProbe(Proc()).dump(pids, lambda: 7.0)
        now = looking.round()
        looking.close()
        assert set(stacks) | set(unknowns) == set(pids)
        assert program.pid in rows(processes=now.processes)


def test_a_zombie_is_not_said_to_hang() -> None:
    with Program("zombie.py").hear("child") as program:
        seen = watch(program.pids["child"], seconds=3.0)
        assert seen.diagnosis.verdict is Verdict.UNKNOWN
        assert "zombie" in seen.diagnosis.because
        assert seen.snapshot.processes[0].exit_code == 5 << 8


def wait_until_asleep(pid: int) -> None:
    """The handshake of a program that cannot give one: the kernel says that it sleeps in a timer."""
    assert becomes(lambda: Path(f"/proc/{pid}/wchan").read_text() == "hrtimer_nanosleep"), Path(
        f"/proc/{pid}/status"
    ).read_text()


def test_a_program_that_is_no_python() -> None:
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        wait_until_asleep(process.pid)
        looking = sampler(process.pid)
        now = [looking.round() for _ in range(2)][-1]
        looking.close()
    finally:
        process.kill()
        process.wait()
    assert now.stacks == ()
    assert [row.reason for row in now.unknowns] == ["not a Python process"]
    assert now.blocked[0].syscall == "clock_nanosleep"
    assert now.blocked[0].wakes_at is not None
    assert 900 < now.blocked[0].wakes_at - now.taken_at <= 1000


def test_nothing_of_ours_is_left() -> None:
    with Program("pool_worker.py").hear("child") as program:
        looking = sampler(program.pid)
        looking.round()
        looking.close()
        assert py_spies(program.pid) == []
        assert {row.state for row in looking._table.look(0.0)[0]} == {"S"}
