"""When file servers are asked and how long a report waits for them, with a helper and a clock that only go on when waited for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mpmon.probes import file_servers
from mpmon.probes.aside import Unanswered
from mpmon.probes.aside.wire import Answer
from mpmon.probes.file_servers import MOST, FileServers
from mpmon.probes.files import Proc
from mpmon.probes.kernel.holdings import ServedFile
from mpmon.probes.mounts import MountPoint
from mpmon.probes.silence import DEADLINE_S

DEVICES = tuple(f"00:{number:02x}" for number in range(16))


class Helper:
    """The helper's side of `Aside`: some devices do not answer."""

    def __init__(self, *dead: str) -> None:
        self.dead = frozenset(dead)
        self.now = 0.0
        self.asked: list[str] = []
        self.waited_s: list[float] = []
        self.has_ended = False

    def monotonic(self) -> float:
        return self.now

    def post(self, _function: object, _proc: Proc, device: str, _path: str) -> int:
        assert not self.waited_s, "somebody was waited for before all were asked"
        self.asked.append(device)
        return len(self.asked) - 1

    def posted(self, number: int, seconds: float = 0.0) -> Answer | None:
        if self.has_ended:
            raise Unanswered("it has ended")
        if self.asked[number] not in self.dead:
            return Answer(number, None, None, 0.0)
        if seconds:
            self.waited_s.append(seconds)
            self.now += seconds
        return None

    def makes_headway(self, _number: int, spent: list[bytes]) -> bool:
        """As the real one it knows by the second look."""
        before, spent[:] = list(spent), [b"ran"]
        return not before


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Helper:
    made = Helper(*DEVICES)
    monkeypatch.setattr(file_servers, "time", made)
    return made


def asked(helper: Helper, *, eager: bool, devices: tuple[str, ...] = DEVICES) -> dict[str, float | None]:
    """By device since when it has not answered, after one round in which nobody waits for any of them."""
    servers = FileServers(Proc(aside=cast("Any", helper)), eager=eager)
    mounts = (MountPoint(device, f"/mnt/{device}", "nfs4", "server:/") for device in devices)
    files = tuple(ServedFile(mount, f"/proc/1/fd/{number}") for number, mount in enumerate(mounts))
    return {row.device: row.unanswered_since for row in servers.refresh({1: files}, (), 5.0)}


def test_a_report_knows_in_its_first_round_that_servers_are_silent_for_which_nobody_waits(helper: Helper) -> None:
    assert asked(helper, eager=True) == dict.fromkeys(DEVICES, 5.0)


def test_however_many_are_silent_a_report_waits_for_one_deadline(helper: Helper) -> None:
    asked(helper, eager=True)
    assert DEADLINE_S <= sum(helper.waited_s) <= 2 * DEADLINE_S


def test_a_report_does_not_wait_where_all_answer(helper: Helper) -> None:
    helper.dead = frozenset()
    assert asked(helper, eager=True) == dict.fromkeys(DEVICES)
    assert helper.waited_s == []


def test_a_screen_waits_for_none(helper: Helper) -> None:
    assert asked(helper, eager=False) == dict.fromkeys(DEVICES)
    assert helper.waited_s == []


def test_a_helper_that_ends_is_no_silent_server(helper: Helper) -> None:
    helper.has_ended = True
    assert asked(helper, eager=True) == dict.fromkeys(DEVICES)


def test_no_more_are_asked_than_are_allowed(helper: Helper) -> None:
    asked(helper, eager=True, devices=tuple(f"{number:02x}:00" for number in range(2 * MOST)))
    assert len(helper.asked) == MOST
