"""File systems whose server does not answer, and the threads that wait for it."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.model import Mount, Row
from tests.builders import ROOT, START, blocked, kernel_object, process, snapshot, stack, thread, watched

NFS, SSHFS = "00:2d", "00:2e"
WORKER = 4121
REGISTERS = (0x7FFD10, 0x55AE78)
"""Stack pointer and program counter: what the kernel tells of a thread that is in no system call."""


def mount(device: str = NFS, *, silent: bool = True, **more: str) -> Mount:
    return Mount(
        device=device, kind="nfs4", source="server:/export", path="/data", pids=(ROOT,), asked_at=START,
        unanswered_since=START if silent else None, **more,
    )  # fmt: skip


def waiting(syscall: str | None, *devices: str, state: str = "D") -> tuple[Row, ...]:
    """The main thread is in a call on one of these file systems."""
    names = [f"mount:{device}" for device in devices]
    return (
        process(state=state), thread(), stack("main", "train.py:9 load"),
        blocked(syscall, *names, state=state, wchan="rpc_wait_bit_killable", args=REGISTERS),
        *(kernel_object(name) for name in names),
    )  # fmt: skip


def found(*rows: Row) -> Diagnosis:
    return watched(snapshot(*rows))


@pytest.mark.parametrize(("syscall", "state"), [("pread64", "D"), ("read", "S"), ("openat", "S"), (None, "D")])
def test_who_waits_for_it_hangs_and_the_server_is_named(syscall: str | None, state: str) -> None:
    """Also one that waits for a page of a file that it maps, in no call at all."""
    diagnosis = found(*waiting(syscall, NFS, state=state), mount())
    first = diagnosis.findings[0]
    assert (diagnosis.verdict, first.cause, first.certainty) == (Verdict.HUNG, "io-wait", Certainty.PROVED)
    assert "nfs4 server:/export on /data does not answer" in first.summary
    assert any("has not answered for" in line for line in first.evidence)


def test_a_worker_that_waits_for_it_is_the_suspect_of_those_who_wait_for_the_worker() -> None:
    pipe = kernel_object("pipe:7")
    rows = waiting("pread64", NFS)
    worker = [
        process(WORKER, parent=ROOT), thread(WORKER), stack("main", "train.py:31 read_row", pid=WORKER),
        blocked("pread64", f"mount:{NFS}", pid=WORKER, state="D"),
    ]  # fmt: skip
    main = [process(), thread(), stack("main", "train.py:9 main"), blocked("wait4", f"process:{WORKER}"), pipe]
    first = found(*main, *worker, rows[-1], mount()).findings[0]
    assert (first.cause, [suspect.pid for suspect in first.suspects]) == ("io-wait", [WORKER])


def test_a_server_that_answers_is_no_cause() -> None:
    first = found(*waiting("pread64", NFS), mount(silent=False)).findings[0]
    assert first.certainty is not Certainty.PROVED
    assert "does not answer" not in first.summary


def test_a_call_that_names_no_file_proves_nothing() -> None:
    """close(2) has given up the descriptor already: the only silent file system that the process sees is likely."""
    first = found(*waiting("close", NFS, SSHFS), mount(), mount(SSHFS, silent=False)).findings[0]
    assert (first.cause, first.certainty) == ("io-wait", Certainty.LIKELY)
    assert "on /data does not answer" in first.summary


def test_of_two_silent_ones_neither_is_named_where_the_call_names_none() -> None:
    first = found(*waiting("close", NFS, SSHFS), mount(), mount(SSHFS)).findings[0]
    assert "does not answer" not in first.summary


def test_a_file_there_that_nobody_touches_is_worth_a_remark() -> None:
    diagnosis = found(process(), thread(), stack("main", "train.py:9 main"), blocked("poll", timeout_s=0.1), mount())
    assert diagnosis.verdict is not Verdict.HUNG
    said = [remark for remark in diagnosis.remarks if remark.topic == "mount-silent"]
    assert [remark.pids for remark in said] == [(ROOT,)]
    assert "nfs4 server:/export on /data has not answered for 12 s" in said[0].summary


def test_one_that_fails_is_worth_a_remark_and_one_that_answers_is_not() -> None:
    at_work = (process(), thread(), stack("main", "train.py:9 main"), blocked("poll", timeout_s=0.1))
    gone = found(*at_work, mount(silent=False, problem="transport endpoint is not connected")).remarks
    assert ["fails: transport endpoint is not connected" in remark.summary for remark in gone] == [True]
    assert not found(*at_work, mount(silent=False)).remarks
