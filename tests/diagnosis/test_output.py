"""A subprocess has ended, and what it left in the background keeps the pipe open into which it printed."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import NOT_PYTHON, Handle, Row, Unknown
from tests.builders import ROOT, START, blocked, diagnosed, holds, kernel_object, process, snapshot, stack, thread

SHELL, EXPORTER, WORKER, PIPE = 4121, 4122, 4123, "pipe:7"
INIT = 1
READS_OUTPUT = (
    "lib/selectors.py:415 _PollLikeSelector.select", "lib/subprocess.py:2115 Popen._communicate",
    "lib/subprocess.py:1209 Popen.communicate", "lib/subprocess.py:550 run", "job.py:32 start_exporter",
)  # fmt: skip


def said(
    *more: Row,
    parent: int = INIT,
    outsiders: tuple[Handle, ...] = (),
    ran: bool = False,
    works_for: int = 0,
    shell: str = "Z",
    **sleep: object,
) -> Diagnosis:
    """The main program waits for the output of a shell that is a zombie, or whose state is another one.

    `parent` is the parent of what it left running, and `works_for` the parent of one more that works.
    """

    def rows(second: int) -> tuple[Row, ...]:
        return (
            process(), thread(), stack("main", *READS_OUTPUT), blocked("poll", PIPE, ran_at=0.0),
            kernel_object(PIPE, fill=0, capacity=65536), holds(ROOT, PIPE, writes=False),
            process(SHELL, parent=ROOT, name="sh", cmdline=("sh", "-c", "exporter &"), state=shell, exit_code=0), *more,
            process(EXPORTER, parent=parent, name="exporter", cmdline=("exporter",)),
            thread(EXPORTER, slices=10 + second if ran else 10),
            blocked("clock_nanosleep", pid=EXPORTER, **{"wakes_at": START + 1e6, "ran_at": 0.0, **sleep}),
            holds(EXPORTER, PIPE, reads=False), Unknown(table="stacks", pid=EXPORTER, reason=NOT_PYTHON),
            *((process(WORKER, parent=works_for, name="make"), thread(WORKER, slices=second)) if works_for else ()),
        )  # fmt: skip

    rounds = [snapshot(*rows(second), at=float(second)) for second in range(12)]
    return diagnosed([msgspec.structs.replace(row, outsiders=outsiders) for row in rounds])


def test_the_reader_is_told_who_keeps_the_pipe_open() -> None:
    found = said()
    assert (found.verdict, found.findings[0].cause) == (Verdict.HUNG, "main-stuck")
    assert [suspect.frame and suspect.frame.line for suspect in found.findings[0].suspects] == [32]
    assert any("exporter (pid 4122) still runs in the background" in line for line in found.findings[0].evidence)


def test_a_program_in_python_that_keeps_it_open_is_to_blame() -> None:
    found = said(stack("main", "sidecar.py:20 run", pid=EXPORTER))
    assert (found.verdict, found.findings[0].cause) == (Verdict.HUNG, "lock-held")
    assert [suspect.frame and suspect.frame.line for suspect in found.findings[0].suspects] == [20]


@pytest.mark.parametrize("sleep", [{"wakes_at": START + 60}, {"ran": True}])
def test_one_that_may_still_end_is_waited_for(sleep: dict[str, object]) -> None:
    assert said(**sleep).verdict is not Verdict.HUNG  # type: ignore[arg-type]


@pytest.mark.parametrize("listens", [True, False])
def test_a_server_that_wakes_up_for_its_timers_does_not_end(*, listens: bool) -> None:
    accepts = blocked("epoll_wait", "socket:9", pid=EXPORTER, tid=EXPORTER + 90)
    found = said(
        kernel_object("socket:9", kind="socket", listens=listens), thread(EXPORTER, EXPORTER + 90), accepts, ran=True
    )
    assert (found.verdict is Verdict.HUNG) == listens
    assert not listens or "keeps its output pipe open" in found.findings[0].summary


SLEEPS = {"wakes_at": START + 30, "ran_at": START}


@pytest.mark.parametrize(("only_sleeps", "verdict"), [(True, Verdict.HUNG), (False, Verdict.HEALTHY)])
def test_one_in_a_loop_that_it_never_leaves_is_not_waited_for(*, only_sleeps: bool, verdict: Verdict) -> None:
    loop = msgspec.structs.replace(stack("main", "sidecar.py:20 run", pid=EXPORTER), only_sleeps=only_sleeps)
    assert said(loop, **SLEEPS).verdict is verdict  # type: ignore[arg-type]


@pytest.mark.parametrize("parent", [EXPORTER, INIT])
def test_it_may_wait_for_another_one_that_was_left(parent: int) -> None:
    assert said(works_for=parent).verdict is not Verdict.HUNG


def test_a_child_that_works_on_is_no_remains() -> None:
    """What it waits for is the end of that child, as ever."""
    found = said(parent=ROOT)
    assert all("background" not in line for finding in found.findings for line in finding.evidence)


def test_the_subprocess_itself_may_work_on_with_its_output_elsewhere() -> None:
    found = said(shell="S")
    assert all("has ended" not in line for finding in found.findings for line in finding.evidence)


def test_nothing_is_said_of_what_somebody_outside_of_the_job_may_do() -> None:
    assert said(outsiders=(holds(900, PIPE, reads=False),)).verdict is not Verdict.HUNG


def test_output_that_lies_in_the_pipe_is_about_to_be_read() -> None:
    assert said(kernel_object(PIPE, fill=9, capacity=65536)).verdict is not Verdict.HUNG
