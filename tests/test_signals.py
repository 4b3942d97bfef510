"""Signals reach exactly the processes that were named, and what became of them is told."""

from __future__ import annotations

import errno
import os
import signal

import msgspec
import pytest

from mpmon import signals
from mpmon.probes.files import Proc
from mpmon.probes.identity import Identity
from mpmon.signals import SignalSender
from tests.descriptors import own_descriptors
from tests.sleepers import DEAF, row, sleeper


def send(number: int, *processes: object) -> tuple[signals.Outcome, ...]:
    return SignalSender(Identity(Proc()))(number, processes)  # type: ignore[arg-type]


def test_a_signal_ends_a_process() -> None:
    with sleeper() as child:
        (outcome,) = send(signal.SIGTERM, row(child.pid))
        assert child.wait() == -signal.SIGTERM
    assert (outcome.problem, outcome.ended) == ("", True)


def test_the_survivor_of_a_signal_is_told() -> None:
    with sleeper(DEAF) as child:
        (outcome,) = send(signal.SIGTERM, row(child.pid))
        assert child.poll() is None
    assert (outcome.problem, outcome.ended, outcome.state) == ("", False, "S")


def test_stop_and_go_on() -> None:
    with sleeper() as child:
        process = row(child.pid)
        assert send(signal.SIGSTOP, process)[0].state == "T"
        assert send(signal.SIGCONT, process)[0].state in "RS"


def test_a_pid_that_was_given_to_another_process_gets_nothing() -> None:
    with sleeper() as child:
        earlier = msgspec.structs.replace(row(child.pid), start_time=row(child.pid).start_time - 0.01)
        (outcome,) = send(signal.SIGKILL, earlier)
        assert outcome.problem == "its pid belongs to another process now"
        assert send(signal.SIGTERM, row(child.pid))[0].ended
        assert child.wait() == -signal.SIGTERM


def test_one_that_has_ended_hides_none_of_the_others() -> None:
    with sleeper() as gone, sleeper() as child:
        processes = [row(gone.pid), row(child.pid)]
        gone.kill()
        gone.wait()
        first, second = send(signal.SIGTERM, *processes)
        assert child.wait() == -signal.SIGTERM
    assert first.problem == "it has ended"
    assert second.ended


def test_a_zombie_has_ended() -> None:
    with sleeper() as child:
        process = row(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert send(signal.SIGTERM, process)[0].problem == "it has ended"


def test_processes_of_others_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    real = signals.call

    def refuse(number: int, *arguments: int) -> int:
        if number == signals.PIDFD_SEND_SIGNAL:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return real(number, *arguments)

    monkeypatch.setattr(signals, "call", refuse)
    with sleeper() as child:
        assert send(signal.SIGTERM, row(child.pid))[0].problem == "not permitted: it belongs to another user"
        assert child.poll() is None


def test_without_a_handle_on_the_process_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "PIDFD_OPEN", 9999)
    with sleeper() as child:
        assert "pidfd_open: Function not implemented" in send(signal.SIGKILL, row(child.pid))[0].problem
        assert child.poll() is None


def test_no_descriptor_stays_open() -> None:
    with sleeper() as child:
        before = own_descriptors()
        send(signal.SIGCONT, row(child.pid))
        assert not own_descriptors() - before
