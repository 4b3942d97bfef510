"""What could not be read: which causes stay undecided, and that nothing is proved then."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Unchecked, Verdict, by_reason
from mpmon.diagnosis.missing_data import FACTS
from mpmon.diagnosis.rules import RULES, stopped
from mpmon.model import NOT_PYTHON, Row, Unknown
from tests.builders import ROOT, blocked, holds, kernel_object, process, snapshot, stack, watched

REFUSED = "has cleared its dumpable flag"
ALL = {rule.CAUSE for rule in RULES if rule.NEEDS}
JOINS = (
    "multiprocessing/popen_fork.py:27 Popen.poll",
    "multiprocessing/process.py:149 BaseProcess.join",
    "train.py:7 main",
)


def refused(pid: int, *tables: str) -> tuple[Row, ...]:
    """What is missing of a process that cannot be read; each reason begins with its pid."""
    return tuple(Unknown(table=table, pid=pid, reason=f"pid {pid} {REFUSED}") for table in tables)


def hidden(pid: int = ROOT, state: str = "S", **more: object) -> tuple[Row, ...]:
    """A process of which only the state may be known."""
    parent = 1 if pid == ROOT else ROOT
    return (
        process(pid, parent=parent, state=state, environment=None, **more),
        blocked(None, pid=pid, state=state, ran_at=0.0),
        *refused(pid, "stacks", "handles"),
    )


def reasons(found: Diagnosis) -> set[str]:
    return {row.reason for row in found.unchecked}


def causes(found: Diagnosis) -> set[str]:
    return {row.cause for row in found.unchecked}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CAUSE)
def test_a_rule_needs_tables_that_there_are(rule: object) -> None:
    assert FACTS.keys() >= rule.NEEDS  # type: ignore[attr-defined]


def test_processes_with_the_same_gap_are_told_together() -> None:
    found = watched(snapshot(process(), *hidden(7), *hidden(8)))
    assert reasons(found) == {f"stacks, system calls and open files of pid 7 and 8: each {REFUSED}"}
    assert causes(found) == ALL


def test_at_most_four_pids_are_named() -> None:
    rows = [row for pid in range(10, 20) for row in hidden(pid)]
    assert any("pid 10, 11, 12 and 7 more:" in reason for reason in reasons(watched(snapshot(process(), *rows))))


def test_only_causes_that_need_what_is_missing_are_undecided() -> None:
    found = watched(snapshot(process(), stack("main", *JOINS), blocked("wait4"), *refused(ROOT, "semaphores")))
    assert causes(found) == {rule.CAUSE for rule in RULES if "semaphores" in rule.NEEDS}
    assert reasons(found) == {f"semaphores of pid {ROOT}: it {REFUSED}"}


def test_nothing_is_missing_of_helpers_the_dead_and_other_programs() -> None:
    found = watched(
        snapshot(
            process(), stack("main", *JOINS), blocked("wait4"),
            process(7, parent=ROOT, cmdline=("python", "-c", "from multiprocessing.resource_tracker import main")),
            *refused(7, "stacks"), process(8, parent=ROOT, state="Z"), *refused(8, "stacks"),
            process(9, parent=ROOT, cmdline=("sleep", "9")), Unknown(table="stacks", pid=9, reason=NOT_PYTHON),
            process(10, parent=ROOT, cmdline=("/bin/bash", "-c", "true")), *refused(10, "stacks"),
        )
    )  # fmt: skip
    assert found.unchecked == ()


def test_one_line_a_reason_for_people() -> None:
    rows = [Unchecked(cause=f"cause-{number}", reason="stacks of pid 7: refused") for number in range(9)]
    (line,) = by_reason(rows)
    assert line.startswith("stacks of pid 7: refused (not decided: cause-0, ")
    assert line.endswith("and 4 more)")


# A stopped process is a fact that anybody may know


def waits_for_the_stopped(*, readable: bool = True) -> tuple[Row, ...]:
    rows = (
        process(), stack("main", *JOINS), blocked("wait4", "process:7", ran_at=0.0), kernel_object("process:7"),
        process(7, parent=ROOT, state="T"), blocked("pause", pid=7, state="T", ran_at=0.0),
    )  # fmt: skip
    return rows if readable else (*rows, *refused(7, "stacks", "handles"))


def test_a_stopped_process_is_proved_where_all_can_be_read() -> None:
    found = watched(snapshot(*waits_for_the_stopped()))
    assert (found.findings[0].cause, found.findings[0].certainty) == (stopped.CAUSE, Certainty.PROVED)


def test_a_stopped_process_that_may_not_be_read_is_likely() -> None:
    found = watched(snapshot(*waits_for_the_stopped(readable=False)))
    assert (found.findings[0].cause, found.findings[0].certainty) == (stopped.CAUSE, Certainty.LIKELY)


def test_no_proof_where_a_stranger_could_hold_the_other_end() -> None:
    rows = (*waits_for_the_stopped(), process(8, parent=ROOT), blocked("pause", pid=8), *refused(8, "handles"))
    assert watched(snapshot(*rows)).findings[0].certainty is Certainty.LIKELY


def test_a_stopped_process_in_a_job_that_may_not_be_read_at_all() -> None:
    found = watched(snapshot(*hidden(), *hidden(7, "T"), *hidden(8)))
    assert found.verdict is Verdict.HUNG, found.because
    (finding,) = found.findings
    assert (finding.cause, finding.certainty) == (stopped.CAUSE, Certainty.LIKELY)
    assert [suspect.pid for suspect in finding.suspects] == [7]
    assert stopped.CAUSE not in causes(found)


def test_a_stopped_process_is_not_blamed_while_another_one_moves() -> None:
    first = snapshot(*hidden(), *hidden(7, "T"), *hidden(8))
    from tests.builders import after, diagnosed

    rounds = [first]
    for _ in range(12):
        rounds.append(after(rounds[-1], 1.0, ran=(8,)))
    assert diagnosed(rounds).verdict is Verdict.UNKNOWN


def test_the_dead_of_a_job_that_may_not_be_read_are_named() -> None:
    found = watched(snapshot(*hidden(), process(7, parent=ROOT, state="Z", exit_code=9)))
    assert found.verdict is Verdict.UNKNOWN
    assert found.because.startswith(f"pid {ROOT} {REFUSED}")
    assert "(pid 7) was killed by SIGKILL (9)" in found.because


def test_a_hole_in_what_is_known_of_others_lowers_no_proof_by_owners() -> None:
    """A search through much memory that was cut short hides no open file."""
    rows = (*waits_for_the_stopped(), process(8, parent=ROOT), holds(8, "pipe:1"), *refused(8, "semaphores"))
    assert watched(snapshot(*rows)).findings[0].certainty is Certainty.PROVED


# One process among others that cannot be read


def waits_at_a_pipe(*rows: Row) -> Diagnosis:
    return watched(
        snapshot(
            process(), stack("main", "multiprocessing/connection.py:395 Connection.recv", "train.py:9 main"),
            blocked("read", "pipe:1", ran_at=0.0), kernel_object("pipe:1", fill=0, capacity=65536),
            holds(ROOT, "pipe:1", writes=False), *rows,
        )
    )  # fmt: skip


def test_who_may_not_be_read_may_hold_the_other_end() -> None:
    assert [row.pid for row in waits_at_a_pipe().findings[0].suspects] == [ROOT]
    (finding,) = waits_at_a_pipe(*hidden(7)).findings
    assert (finding.cause, finding.certainty) == ("worker-stuck", Certainty.POSSIBLE)
    assert [suspect.pid for suspect in finding.suspects] == [7]
    assert "cannot be read (no permission)" in finding.summary


def test_the_dead_are_not_blamed_where_the_living_may_not_be_read() -> None:
    dead = process(8, parent=ROOT, state="Z", exit_code=9)
    assert [row.pid for row in waits_at_a_pipe(dead).findings[0].suspects] == [8]
    assert [row.pid for row in waits_at_a_pipe(dead, *hidden(7)).findings[0].suspects] == [7]


def behind_a_lock(*more: Row) -> Diagnosis:
    """The main program waits for a child's end, and of the child the kernel tells only that it sleeps in a lock."""
    return watched(
        snapshot(
            process(), stack("main", *JOINS), blocked("wait4", "process:7"),
            process(7, parent=ROOT), blocked("futex", "futex:7:0x10", pid=7, ran_at=0.0), *more,
        )
    )  # fmt: skip


def test_one_whose_frames_are_not_known_neither_hangs_nor_gets_on() -> None:
    found = behind_a_lock()
    assert (found.verdict, found.findings) == (Verdict.UNKNOWN, ())
    assert found.because.endswith("is blocked in a lock, and its frames could not be read")
    assert behind_a_lock(Unknown(table="stacks", pid=7, reason="py-spy is tired")).because.endswith(": py-spy is tired")
