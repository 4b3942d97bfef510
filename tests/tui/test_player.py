"""Which picture is shown, without a screen."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Observation, Verdict
from mpmon.tui.player import Player
from tests.tui.fakes import NOW, FakeWatch, healthy, observe


def picture(number: int, verdict: Verdict = Verdict.HEALTHY) -> Observation:
    shown = observe(healthy(now=NOW + number).snapshot, Diagnosis(verdict=verdict, since=NOW + 2))
    return msgspec.structs.replace(shown, number=number)


def playing(live: bool, count: int = 3, *, last: Verdict = Verdict.HEALTHY) -> tuple[Player, FakeWatch]:
    """A player to which so many pictures have come."""
    watch = FakeWatch(live=live)
    player = Player(watch)
    for number in range(1, count + 1):
        arrives(player, watch, picture(number, last if number == count else Verdict.HEALTHY))
    return player, watch


def arrives(player: Player, watch: FakeWatch, observation: Observation) -> str:
    watch.buffer.add(observation)
    player.arrived(observation)
    return player.searched()


def shown(player: Player) -> int | None:
    return player.shown.number if player.shown else None


@pytest.mark.parametrize("live", [True, False])
def test_one_looks_back_and_forth_through_what_is_kept(live: bool) -> None:
    player, _ = playing(live)
    told = [(player.back(), shown(player)), (player.back(), shown(player)), (player.back(), shown(player))]
    assert told == [("", 2), ("", 1), ("no earlier snapshot is kept", 1)]
    assert (player.step(), shown(player)) == ("", 2)


def test_a_paused_live_picture_stays_and_p_returns_to_now() -> None:
    player, watch = playing(live=True)
    player.back()
    arrives(player, watch, picture(4))
    assert shown(player) == 2
    player.toggle()
    assert (shown(player), player.paused, watch.asked) == (4, False, [])


def test_a_live_job_has_nothing_after_now() -> None:
    player, watch = playing(live=True)
    assert (player.step(), shown(player), watch.asked) == ("this is the newest snapshot", 3, [])


def test_a_recording_plays_on_from_where_one_looks() -> None:
    player, watch = playing(live=False)
    player.back()
    player.toggle()
    assert watch.asked == [("pause", True), ("go", 2), ("go", 2), ("pause", False)]


def test_beyond_what_it_has_shown_a_recording_is_asked_for_one_more() -> None:
    player, watch = playing(live=False)
    player.step()
    assert watch.asked == [("pause", True), "step"]
    arrives(player, watch, picture(4))
    assert shown(player) == 4


def test_a_picture_that_was_on_its_way_does_not_undo_the_pause() -> None:
    player, watch = playing(live=False)
    player.back()
    arrives(player, watch, picture(4))
    assert shown(player) == 2


@pytest.mark.parametrize("live", [True, False])
def test_to_where_a_known_hang_began(live: bool) -> None:
    player, _ = playing(live, 9, last=Verdict.HUNG)
    assert (player.to_hang(), shown(player), player.paused) == ("", 2, True)


def test_to_a_hang_that_is_still_to_come() -> None:
    player, watch = playing(live=False)
    assert player.to_hang() == "reading on to the hang"
    assert watch.asked == [("pause", True), "find hang"]
    arrives(player, watch, picture(7))
    assert shown(player) == 7


def test_a_recording_without_a_hang_is_told_at_its_end() -> None:
    player, watch = playing(live=False)
    player.to_hang()
    assert [arrives(player, watch, picture(number)) for number in (4, 5)] == ["", ""]
    watch.length = 5
    assert [player.searched(), player.searched()] == ["no hang in this recording", ""]


def test_the_end_is_no_news_to_whom_did_not_ask_for_a_hang() -> None:
    player, watch = playing(live=False)
    watch.length = 5
    player.to_hang()
    player.toggle()
    assert [arrives(player, watch, picture(number)) for number in (4, 5)] == ["", ""]


def test_a_hang_at_the_end_of_a_recording_is_one() -> None:
    player, watch = playing(live=False)
    watch.length = 4
    player.to_hang()
    assert arrives(player, watch, picture(4, Verdict.HUNG)) == ""


def test_a_live_job_without_a_hang() -> None:
    player, watch = playing(live=True)
    assert (player.to_hang(), watch.asked) == ("no hang so far", [])


def test_speed_has_bounds_and_no_meaning_for_a_live_job() -> None:
    player, watch = playing(live=False)
    for _ in range(20):
        player.faster(2.0)
    assert watch.speed == 64.0
    for _ in range(40):
        player.faster(0.5)
    assert watch.speed == 1 / 8
    player, watch = playing(live=True)
    player.faster(2.0)
    assert watch.speed == 1.0


def test_the_place_is_told_for_a_recording_and_while_looking_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpmon.tui.player.time.localtime", __import__("time").gmtime)
    player, watch = playing(live=False)
    assert player.marks() == ("00:04:15 · 3",)
    watch.length = 120
    player.faster(2.0)
    player.back()
    assert player.marks() == ("paused", "2x", "00:04:14 · 2 of 120")
    player, _ = playing(live=True)
    assert player.marks() == ()
    player.back()
    assert player.marks() == ("paused", "00:04:14 · 2 of 3")


def test_the_end_of_a_recording() -> None:
    player, watch = playing(live=False)
    assert not player.at_end
    watch.length = 3
    assert player.at_end
    player.back()
    assert not player.at_end
