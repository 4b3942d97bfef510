"""What the app does with what comes from the watch and from the keys."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Event, Finding, Link, Waiter
from mpmon.errors import CannotTell, MpmonError
from mpmon.reports import document
from mpmon.tui.app import MonitorApp
from mpmon.tui.describe.finding import chain
from mpmon.tui.line import BLANK, plain, text_of
from mpmon.tui.options import Options
from mpmon.tui.panels.processes import ProcessesPanel
from mpmon.tui.panels.stack import one_below_the_other
from mpmon.tui.scene import Scene
from tests.patience import Counted
from tests.tui.fakes import NOW, BlockedWatch, FakeWatch, ended, healthy, hung, many, observe, with_tables, with_views
from tests.tui.screens import WIDE, play, screen_text, screen_text_of, settle, shows

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation


def test_ages_count_to_the_moment_of_the_snapshot() -> None:
    watch = FakeWatch(hung())

    async def script(pilot: Pilot[int]) -> None:
        watch.feed(hung(now=NOW + 3600))
        await settle(pilot, lambda: shows(pilot, "HUNG 1 h 04 min"))

    play(watch, script, first="HUNG 4 min 12 s")


def test_a_blocked_watch_blocks_neither_keys_nor_the_exit() -> None:
    watch = BlockedWatch()
    took = Counted()

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("h")
        await settle(pilot, lambda: shows(pilot, "looking"))
        await pilot.press("escape", "q")

    app = play(watch, script)

    assert app.return_code == 0
    assert "stop" in watch.asked
    assert took.read() < 5


def test_ctrl_c_quits() -> None:
    app = play(FakeWatch(hung()), lambda pilot: pilot.press("ctrl+c"))

    assert app.return_code == 0


def test_escape_never_quits() -> None:
    app = play(FakeWatch(hung()), lambda pilot: pilot.press("escape", "escape"), first="HUNG")

    assert app.return_value is None


def test_the_last_picture_stays_when_the_job_ends() -> None:
    watch = FakeWatch(hung(), None)  # pyright: ignore[reportArgumentType]

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "the job ended", "HUNG"))

    play(watch, script)


def test_a_job_whose_last_process_nobody_has_collected_has_ended() -> None:
    before = ended()
    zombie = before.snapshot.exits[0].process
    snapshot = msgspec.structs.replace(
        before.snapshot, exits=(), processes=(msgspec.structs.replace(zombie, state="Z", threads=1),)
    )
    left = msgspec.structs.replace(before, snapshot=snapshot)

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "ENDED", "main (pid 4100) ended with exit status 5, at "))

    play(FakeWatch(left), script)


def test_the_headline_counts_those_that_are_listed_and_says_how_many_of_them_have_ended() -> None:
    before = healthy()
    launcher, *ranks = before.snapshot.processes
    dead = msgspec.structs.replace(ranks[1], state="Z", threads=1)
    one_left = with_tables(before, processes=(launcher, ranks[0], dead))

    async def script(pilot: Pilot[int]) -> None:
        first, *others = screen_text_of(pilot).splitlines()
        assert "2 ranks · 3 processes, 1 ended · up" in first
        assert any(line.startswith("── processes 3 ") for line in others)
        (row,) = [line for line in others if "4202" in line and "rank 1" in line]
        assert "97" not in row

    play(FakeWatch(one_left), script, size=WIDE, first="rank 1")


def test_the_end_of_a_recording_is_told() -> None:
    watch = FakeWatch(hung(), None, live=False, title="recording hang.jsonl.gz")  # pyright: ignore[reportArgumentType]
    watch.length = 1

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "1 of 1, the end]", "recording hang.jsonl.gz"))

    play(watch, script)


def test_a_failure_is_a_sentence_with_its_remedy() -> None:
    watch = FakeWatch()
    watch.feed(CannotTell("Process 4100 is gone.", "Start it again."))

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "Process 4100 is gone. Start it again."))

    play(watch, script)


def test_a_defect_is_a_line_and_no_traceback() -> None:
    watch = FakeWatch()
    watch.feed(ZeroDivisionError("oops"))  # pyright: ignore[reportArgumentType]

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "this is a defect of mpmon (ZeroDivisionError: oops)"))

    play(watch, script)


def complaining(*told: str) -> Observation:
    """A job of whose probes this was told, the oldest first."""
    kinds = {False: "probe-failed", True: "probe-works"}
    events = [Event(at=NOW, kind=kinds[said.endswith("works again")], summary=said) for said in told]
    return msgspec.structs.replace(hung(), events=tuple(events))


def test_a_probe_problem_is_a_line_until_it_is_over() -> None:
    watch = FakeWatch(complaining("stacks: out of time", "stacks: permission denied"))

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: screen_text_of(pilot).splitlines()[1] == "stacks: permission denied")
        watch.feed(complaining("stacks: permission denied", "stacks: works again"))
        await settle(
            pilot, lambda: screen_text_of(pilot).splitlines()[1].startswith("dataloader worker 1 has been asleep")
        )

    play(watch, script)


def test_the_selection_starts_at_the_suspect_and_the_watch_attends_to_it() -> None:
    watch = FakeWatch(hung())

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "stack dataloader worker 1 (4121)", "dataset.py:88 in download"))

    play(watch, script)

    assert watch.asked[0] == ("attend", 4121)


def test_the_selection_stays_where_the_user_put_it() -> None:
    watch = FakeWatch(hung())

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("home")
        await settle(pilot, lambda: shows(pilot, "stack main (4100)"))
        watch.feed(hung(now=NOW + 8))
        await settle(pilot, lambda: shows(pilot, "4 min 20 s", "stack main (4100)"))
        await pilot.press("F")
        await settle(pilot, lambda: shows(pilot, "stack dataloader worker 1 (4121)"))

    play(watch, script, first="4121")


def test_right_turns_to_the_next_thread() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("right")
        await settle(pilot, lambda: shows(pilot, "watchdog", "threading.py:975 in run"))
        await pilot.press("right")
        await settle(pilot, lambda: shows(pilot, "dataset.py:88 in download"))

    play(FakeWatch(hung()), script, first="1 of 2")


def test_a_missing_stack_has_a_reason() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("end")
        await settle(pilot, lambda: shows(pilot, "no stack: py-spy: Failed to get stack traces"))

    play(FakeWatch(hung()), script, first="4121")


def test_pause_keeps_the_picture_and_the_watch_goes_on() -> None:
    watch = FakeWatch(hung())

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("p")
        await settle(pilot, lambda: shows(pilot, "[paused]"))
        watch.feed(hung(now=NOW + 60))
        await asyncio.sleep(0.1)
        await settle(pilot, lambda: shows(pilot, "HUNG 4 min 12 s"))
        await pilot.press("p")
        await settle(pilot, lambda: shows(pilot, "HUNG 5 min 12 s"))

    play(watch, script, first="HUNG")

    assert ("pause", True) not in watch.asked


def test_a_recording_is_paused_stepped_and_sped_up() -> None:
    watch = FakeWatch(hung(), live=False, title="recording hang")

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("full_stop", "right_square_bracket")
        await settle(pilot, lambda: shows(pilot, "[paused]", "[2x]"))
        watch.feed(hung(now=NOW + 60))
        await settle(pilot, lambda: shows(pilot, "HUNG 5 min 12 s"))
        await pilot.press("left_square_bracket", "left_square_bracket")
        await settle(pilot, lambda: shows(pilot, "[0.5x]"))

    play(watch, script, first="HUNG")

    assert [a for a in watch.asked if a in ("step", ("pause", True))] == [("pause", True), "step"]


def test_look_asks_the_watch() -> None:
    watch = FakeWatch(hung())

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("r")
        await settle(pilot, lambda: shows(pilot, "refreshing everything now"))

    play(watch, script, first="HUNG")

    assert "look" in watch.asked


def test_export_writes_report_and_picture_and_never_over_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("x")
        await settle(pilot, lambda: shows(pilot, "written: mpmon-4100-"))
        await pilot.press("x")
        await settle(pilot, lambda: shows(pilot, "-2.txt .json .svg"))

    def report(observation: Observation) -> str:
        return observation.diagnosis.verdict.value

    before = os.umask(0)
    try:
        play(FakeWatch(hung()), script, first="HUNG", export=report, document=document.render_pretty)
    finally:
        os.umask(before)

    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}  # for nobody else to read
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".json", ".svg", ".svg", ".txt", ".txt"]
    assert {p.read_text() for p in tmp_path.glob("*.txt")} == {"hung\n"}
    assert all(p.read_text().endswith(("}\n", "</svg>\n")) for p in tmp_path.iterdir() if p.suffix != ".txt")
    assert {json.loads(p.read_text())["verdict"] for p in tmp_path.glob("*.json")} == {"hung"}


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (PermissionError(13, "Permission denied", "/data"), "not written: Permission denied: /data"),
        (
            FileNotFoundError(2, "No such file or directory"),
            "not written: No such file or directory: the current folder",
        ),
        (MpmonError("the file system of /data does not answer.", ""), "not written: the file system of /data does not"),
        (ValueError("defect"), "mpmon failed: ValueError: defect"),
    ],
)
def test_export_that_fails_says_so(problem: Exception, words: str) -> None:
    def refuse(*_: object) -> str:
        raise problem

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("x")
        await settle(pilot, lambda: shows(pilot, words))

    play(FakeWatch(hung()), script, first="HUNG", save=refuse)


def test_the_screen_gets_on_and_can_be_left_while_an_export_is_written() -> None:
    asked, answered = threading.Event(), threading.Event()

    def wait(*_: object) -> str:
        asked.set()
        answered.wait()
        return "stem"

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("x")
        await settle(pilot, asked.is_set)
        await pilot.press("x")
        await settle(pilot, lambda: shows(pilot, "still being written"))
        await pilot.press("h")
        await settle(pilot, lambda: shows(pilot, "keys"))

    try:
        play(FakeWatch(hung()), script, first="HUNG", save=wait)
    finally:
        answered.set()


def test_filter_hides_what_does_not_match_and_escape_brings_it_back() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"worker 3", "enter")
        await settle(pilot, lambda: shows(pilot, "filter worker 3") and not shows(pilot, "resource tracker"))
        await pilot.press("n")
        await settle(pilot, lambda: shows(pilot, "stack dataloader worker 3 (4123)"))
        await pilot.press("escape")
        await settle(pilot, lambda: shows(pilot, "resource tracker"))

    play(FakeWatch(hung()), script, first="4121")


def test_letters_in_the_filter_are_text_and_not_keys() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"quit")
        await settle(pilot, lambda: shows(pilot, "nothing matches 'quit'"))

    app = play(FakeWatch(hung()), script, first="4121")

    assert app.return_value is None


def test_the_filter_has_its_name_while_it_is_typed_and_selects_what_it_shows() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"worker 3")
        await settle(pilot, lambda: shows(pilot, "\nfilter: worker 3", "stack dataloader worker 3 (4123)"))
        await pilot.press("escape")
        await settle(pilot, lambda: shows(pilot, "resource tracker", "stack dataloader worker 1 (4121)"))

    play(FakeWatch(hung()), script, first="4121")


def test_a_process_that_the_filter_hides_does_not_stay_selected() -> None:
    watch = FakeWatch(healthy())
    before = healthy(now=NOW + 1)
    launcher, first, second = before.diagnosis.processes
    stopped = with_views(before, launcher, msgspec.structs.replace(first, mood="stopped"), second)

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"working", "enter")
        await settle(pilot, lambda: shows(pilot, "stack rank 0 (4201)"))
        watch.feed(stopped)
        await settle(pilot, lambda: shows(pilot, "stack rank 1 (4202)") and not shows(pilot, "4201"))

    play(watch, script, first="HEALTHY")


def test_a_filter_that_nothing_matches_says_so() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"xyz")
        await settle(pilot, lambda: shows(pilot, "── processes 0 · nothing matches 'xyz' ─"))

    play(FakeWatch(hung()), script, first="4121")


def test_the_next_match_without_a_filter_says_how_to_set_one() -> None:
    async def script(pilot: Pilot[int]) -> None:
        for key in "nN":
            await pilot.press(key)
            await settle(pilot, lambda: shows(pilot, "no filter: / sets one"))

    play(FakeWatch(hung()), script, first="4121")


def test_branches_fold() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("home", "minus")
        await settle(pilot, lambda: shows(pilot, "main +5") and not shows(pilot, "resource tracker"))
        await pilot.press("plus")
        await settle(pilot, lambda: shows(pilot, "resource tracker"))

    play(FakeWatch(hung()), script, first="4121")


def test_a_panel_key_pressed_twice_makes_the_panel_large() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("2", "2")
        await settle(pilot, lambda: not shows(pilot, "resource tracker") and shows(pilot, "dataset.py:88 in download"))
        await pilot.press("escape")
        await settle(pilot, lambda: shows(pilot, "resource tracker"))

    play(FakeWatch(hung()), script, first="4121")


def test_tab_goes_round_the_panels_and_back() -> None:
    def keys_are_in(pilot: Pilot[int], panel: str) -> bool:
        return type(pilot.app.screen.focused).__name__ == panel

    async def script(pilot: Pilot[int]) -> None:
        for key, panel in (
            ("tab", "StackPanel"),
            ("tab", "ProcessesPanel"),
            ("shift+tab", "StackPanel"),
            ("shift+tab", "ProcessesPanel"),
        ):
            await pilot.press(key)
            await settle(pilot, lambda panel=panel: keys_are_in(pilot, panel))

    play(FakeWatch(hung()), script, first="4121")


def test_with_one_panel_large_tab_makes_the_next_one_large() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("1")
        await settle(pilot, lambda: shows(pilot, "resource tracker") and not shows(pilot, "── stack"))
        await pilot.press("tab")
        await settle(pilot, lambda: not shows(pilot, "resource tracker") and shows(pilot, "dataset.py:88 in download"))
        await pilot.press("tab")
        await settle(pilot, lambda: shows(pilot, "resource tracker") and not shows(pilot, "── stack"))

    play(FakeWatch(hung()), script, first="4121")


def test_the_details_of_the_selected_process_fill_the_room_of_a_calm_job() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "── details rank 0 (4201)", "GPU 0", "memory 38G of –"))
        await pilot.press("up")
        await settle(pilot, lambda: shows(pilot, "── details launcher (4200)", "launcher, pid 4200, parent 1"))

    play(FakeWatch(healthy()), script, first="HEALTHY", size=WIDE)


def test_the_first_rank_is_selected_until_the_user_selects_another_process() -> None:
    later = healthy(now=NOW + 1)
    launcher = later.diagnosis.processes[0]
    watch = FakeWatch(with_views(healthy(), launcher))

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "── stack launcher (4200)"))
        watch.feed(later)
        await settle(pilot, lambda: shows(pilot, "── stack rank 0 (4201)"))
        await pilot.press("home")
        await settle(pilot, lambda: shows(pilot, "── stack launcher (4200)"))
        watch.feed(healthy(now=NOW + 60))
        await settle(pilot, lambda: shows(pilot, "HEALTHY 2 min 00 s", "── stack launcher (4200)"))

    play(watch, script, first="HEALTHY 1 min 00 s")


def test_a_title_is_not_alone_on_the_last_line_of_the_stacks() -> None:
    own, other = [plain("own")] * 3, [plain("title"), plain("frame")]

    assert one_below_the_other(own, [other], 10) == [*own, BLANK, *other]
    assert one_below_the_other(own, [other], 6) == [*own, BLANK, *other]
    assert one_below_the_other(own, [other], 5)[:5] == [*own, BLANK, BLANK]
    assert one_below_the_other(own, [other], 5)[5:] == other


def test_the_job_cannot_send_commands_to_the_terminal() -> None:
    nasty = many(3)
    view = nasty.diagnosis.processes[1]
    changed = type(view)(pid=view.pid, role="\x1b[2Jboom", kind="subprocess", parent=5000)
    diagnosis = type(nasty.diagnosis)(
        verdict=nasty.diagnosis.verdict, processes=(nasty.diagnosis.processes[0], changed)
    )

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "·[2Jboom"))
        assert "\x1b" not in screen_text_of(pilot)

    play(FakeWatch(observe(nasty.snapshot, diagnosis)), script)


def test_a_silent_live_watch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpmon.tui.silence.LIMIT_S", 0.1)

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "nothing new for"))

    play(BlockedWatch(hung()), script, first="HUNG", interval=1.0)


def test_without_colour_nothing_is_coloured() -> None:
    app = MonitorApp(FakeWatch(hung()), Options(color=False))
    drawn: list[str] = []

    async def session() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot, lambda: "HUNG" in screen_text(app))
            drawn.append(app.export_screenshot())
        app.stop_feed()

    asyncio.run(session())
    assert "HUNG" in drawn[0]
    assert app.get_line_filters()[-1].__class__.__name__ == "NoColor"


def test_gpu_columns_only_with_gpus() -> None:
    async def with_gpus(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "gmem", "38G"))

    async def without(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "rank 0") and not shows(pilot, "gmem"))

    play(FakeWatch(healthy()), with_gpus)
    play(FakeWatch(healthy(gpus=False)), without)


def test_a_click_selects() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.click("ProcessesPanel", offset=(10, 2))
        await settle(pilot, lambda: shows(pilot, "stack main (4100)"))

    play(FakeWatch(hung()), script, first="4121")


def test_what_the_user_scrolled_to_stays_in_view() -> None:
    watch = FakeWatch(many(100))

    async def script(pilot: Pilot[int]) -> None:
        panel = pilot.app.screen.query_one(ProcessesPanel)
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "of 100"))
        panel.scroll_to(y=50, animate=False)
        await settle(pilot, lambda: shows(pilot, "… 51 "))
        watch.feed(many(100, now=NOW + 30))
        await settle(pilot, lambda: shows(pilot, "HEALTHY 1 min 30 s", "… 51 "))

    play(watch, script, first="5000")


def test_a_page_follows_what_happens_and_escape_closes_it() -> None:
    watch = FakeWatch(hung())

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("w")
        await settle(pilot, lambda: shows(pilot, "what to do", "no progress for 4 min 12 s"))
        watch.feed(hung(now=NOW + 60))
        await settle(pilot, lambda: shows(pilot, "what to do", "no progress for 5 min 12 s"))
        await pilot.press("escape")
        await settle(pilot, lambda: shows(pilot, "resource tracker"))

    play(watch, script, first="4121")


def test_the_palette_has_every_action() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("ctrl+p", *"wait chain")
        await settle(pilot, lambda: shows(pilot, "why: the wait chain"))
        await pilot.press("down", "enter")
        await settle(pilot, lambda: shows(pilot, "what to do"))

    play(FakeWatch(hung()), script, first="4121")


def test_a_long_chain_keeps_its_end() -> None:
    links = tuple(Link(pid=n, role=f"rank {n}", does="all_reduce over a long name") for n in range(8))
    finding = Finding(cause="straggler", certainty=Certainty.LIKELY, summary="", suspects=(), chain=links)

    lines = [text_of(line) for line in chain(Scene(hung()), finding, 60, most=2)]

    assert len(lines) == 2
    assert lines[0].startswith("rank 0 → all_reduce")
    assert "… → rank 7" in " ".join(lines).replace("   ", " ").replace("  ", " ")


def test_a_chain_that_cannot_fit_loses_its_beginning_and_says_so() -> None:
    links = tuple(Link(pid=n, role=f"process with a long name {n}", does="a lock of the other") for n in range(2))
    finding = Finding(cause="lock-cycle", certainty=Certainty.LIKELY, summary="", suspects=(), chain=links)

    lines = [text_of(line) for line in chain(Scene(hung()), finding, 40, most=2)]

    assert len(lines) == 2
    assert lines[0].startswith("… → process with a long name 1")


def test_all_who_wait_for_the_same_are_the_head_of_the_chain() -> None:
    scene = Scene(healthy())
    waits = tuple(
        Waiter(pid=pid, role=f"rank {n}", waits_for="all_reduce of rank 7") for n, pid in ((0, 4201), (1, 4202))
    )
    links = (Link(pid=4201, role="rank 0", does="all_reduce"), Link(pid=9, role="rank 7", does="save"))
    finding = Finding(
        cause="straggler", certainty=Certainty.LIKELY, summary="", suspects=(), chain=links, waiters=waits
    )

    assert text_of(chain(scene, finding, 80, most=2)[0]).startswith("rank 0–1 → all_reduce → rank 7 → save")
    alone = msgspec.structs.replace(finding, waiters=waits[:1])
    assert text_of(chain(scene, alone, 80, most=2)[0]).startswith("rank 0 → all_reduce")


def test_a_signal_to_end_leaves_as_a_quit_does() -> None:
    async def script(pilot: Pilot[int]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await settle(pilot, lambda: pilot.app.return_value is not None)

    app = play(FakeWatch(hung()), script, first="HUNG")

    assert app.return_value == 128 + signal.SIGTERM
