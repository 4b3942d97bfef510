"""The dialog of signals, against real children: what it sends, and all it does not."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import msgspec

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import Snapshot
from mpmon.probes.files import Proc
from mpmon.probes.identity import Identity
from mpmon.signals import SignalSender
from mpmon.tui.describe.signals import in_order, notes
from mpmon.tui.keys import APP_KEYS, MAIN_KEYS
from mpmon.tui.scene import Scene
from tests.builders import view
from tests.sleepers import DEAF, row, sleeper
from tests.tui.fakes import NOW, FakeWatch, observe
from tests.tui.node_fakes import LAUNCHER, RANKS, node
from tests.tui.screens import play, settle, shows

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation
    from mpmon.model import Process

TERM, KILL = ("down",), ("down",) * 3
"""Keys from Cancel to a signal."""


def job(*processes: Process) -> Observation:
    """Ranks that are real processes, the first of them the root."""
    root = processes[0]
    views = tuple(
        view(p.pid, f"rank {n}", rank=n, parent=root.pid if n else None, mood="waiting")
        for n, p in enumerate(processes)
    )
    snapshot = Snapshot(taken_at=NOW, root_pid=root.pid, root_start_time=root.start_time, processes=processes)
    return observe(snapshot, Diagnosis(verdict=Verdict.UNKNOWN, processes=views))


class Noted:
    """Sends, and notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, tuple[int, ...]]] = []
        self._sender = SignalSender(Identity(Proc()))

    def __call__(self, number: int, processes: Sequence[Process]) -> object:
        self.asked.append((number, tuple(p.pid for p in processes)))
        return self._sender(number, processes)


def run(observation: Observation, *steps: tuple[str | tuple[str, ...], tuple[str, ...]], **options: object) -> Noted:
    """Presses keys, and waits after each step until the screen shows these words."""
    noted = Noted()

    async def script(pilot: Pilot[int]) -> None:
        for keys, words in steps:
            await pilot.press(*([keys] if isinstance(keys, str) else keys))
            await settle(pilot, lambda words=words: shows(pilot, *words))  # type: ignore[misc]

    live = bool(options.pop("live", True))
    play(FakeWatch(observation, live=live), script, first="rank 0", **{"send": noted, **options})
    return noted


def test_a_signal_is_chosen_then_confirmed_then_sent() -> None:
    with sleeper() as child:
        noted = run(
            job(row(child.pid)),
            ("k", ("which signal", "rank 0", f"pid {child.pid}", "print('ready'")),
            ((*TERM, "enter"), ("send SIGTERM?", "Send SIGTERM to this process", f"pid {child.pid}")),
            (("down", "enter"), ("SIGTERM was sent", "has ended")),
            ("enter", ("processes 1",)),
        )
        assert child.wait() == -signal.SIGTERM
    assert noted.asked == [(signal.SIGTERM, (child.pid,))]


def test_enter_alone_never_sends() -> None:
    with sleeper() as child:
        opened = ("k", ("which signal",))
        closed = ("enter", ("processes 1",))
        noted = run(
            job(row(child.pid)),
            opened, closed,
            opened, ((*KILL, "enter"), ("send SIGKILL?",)), closed,
        )  # fmt: skip
        assert child.poll() is None
    assert noted.asked == []


def test_escape_cancels_both_steps() -> None:
    with sleeper() as child:
        noted = run(
            job(row(child.pid)),
            ("f9", ("which signal",)),
            ("escape", ("processes 1",)),
            ("f9", ("which signal",)),
            ((*TERM, "enter", "down"), ("send SIGTERM?",)),
            ("escape", ("processes 1",)),
        )
        assert child.poll() is None
    assert noted.asked == []


def test_a_process_that_has_the_pid_of_an_earlier_one_gets_nothing() -> None:
    with sleeper() as child:
        process = row(child.pid)
        earlier = msgspec.structs.replace(process, start_time=process.start_time - 1)
        run(
            job(earlier),
            ("k", ("which signal",)),
            ((*KILL, "enter"), ("send SIGKILL?",)),
            (("down", "enter"), ("not sent: its pid belongs to another process now",)),
        )
        assert child.poll() is None


def test_who_is_still_there_can_be_sent_another_signal() -> None:
    with sleeper(DEAF) as deaf, sleeper() as child:
        noted = run(
            job(row(deaf.pid), row(child.pid)),
            (("space", "space"), ("2 tagged",)),
            ("k", ("which signal", f"pid {deaf.pid}", f"pid {child.pid}")),
            ((*TERM, "enter", "down", "enter"), ("has ended", "still there: sleeping", "Another signal to the one")),
            (("down", "enter"), ("which signal", f"pid {deaf.pid}")),
            ((*KILL, "enter"), ("Send SIGKILL to this process",)),
            (("down", "enter"), ("SIGKILL was sent", "has ended")),
        )
        assert (deaf.wait(), child.wait()) == (-signal.SIGKILL, -signal.SIGTERM)
    assert noted.asked == [(signal.SIGTERM, (deaf.pid, child.pid)), (signal.SIGKILL, (deaf.pid,))]


def test_readonly_has_no_signals() -> None:
    with sleeper() as child:
        noted = run(job(row(child.pid)), ("k", ("no signals: mpmon was started with --readonly",)), readonly=True)
        assert child.poll() is None
    assert noted.asked == []


def test_a_recording_has_no_signals() -> None:
    with sleeper() as child:
        noted = run(job(row(child.pid)), ("k", ("no signals: this is a recording",)), live=False)
    assert noted.asked == []


def test_one_that_has_ended_gets_no_dialog() -> None:
    with sleeper() as child:
        ended = msgspec.structs.replace(row(child.pid), state="Z", threads=1)
        run(job(ended), ("k", ("no signals: it has ended",)))


def test_one_that_ends_meanwhile_is_told_in_the_dialog() -> None:
    with sleeper() as child, sleeper() as other:
        rows = (row(child.pid), row(other.pid))
        watch = FakeWatch(job(*rows))

        async def script(pilot: Pilot[int]) -> None:
            await pilot.press("k")
            await settle(pilot, lambda: shows(pilot, "which signal"))
            watch.feed(job(msgspec.structs.replace(rows[0], state="Z", threads=1), rows[1]))
            await settle(pilot, lambda: shows(pilot, "· has ended"))

        play(watch, script, first="rank 0", size=(120, 40), send=Noted())


def test_who_gets_it_can_be_copied() -> None:
    with sleeper() as child:
        process = row(child.pid)

        async def script(pilot: Pilot[int]) -> None:
            await pilot.press("k")
            await settle(pilot, lambda: shows(pilot, "which signal"))
            await pilot.press("y")
            await settle(pilot, lambda: shows(pilot, "page sent to the clipboard"))
            assert f"1. rank 0 · pid {child.pid} · started" in pilot.app.clipboard

        play(FakeWatch(job(process)), script, first="rank 0", send=Noted())


def test_a_defect_of_the_sender_is_told_and_not_hidden() -> None:
    def broken(number: int, processes: Sequence[Process]) -> object:
        raise ZeroDivisionError("oops")

    with sleeper() as child:
        run(
            job(row(child.pid)),
            ("k", ("which signal",)),
            ((*TERM, "enter", "down", "enter"), ("mpmon failed: ZeroDivisionError: oops",)),
            send=broken,
        )


def test_no_other_key_sends_a_signal() -> None:
    """Every key of the main screen but those of the dialog, each with Enter after it."""
    with sleeper() as child:
        noted = Noted()
        keys = [key for row in (*APP_KEYS, *MAIN_KEYS) for key in row.keys.split(",")]
        safe = [key for key in keys if key not in {"k", "f9", "q", "Q", "f10", "ctrl+c", "x", "slash"}]

        async def script(pilot: Pilot[int]) -> None:
            for key in safe:
                await pilot.press(key, "enter", "escape")
            await settle(pilot)

        play(FakeWatch(job(row(child.pid))), script, first="rank 0", send=noted)
        assert child.poll() is None
    assert noted.asked == []


def order_of(number: int, *pids: int) -> list[int]:
    scene = Scene(node(hung=False))
    return [p.pid for p in in_order(scene, [scene.processes[pid] for pid in pids], number)]


def test_those_above_come_first_but_go_on_last() -> None:
    worker, rank = RANKS[2] + 1, RANKS[2]
    assert order_of(signal.SIGKILL, worker, rank, LAUNCHER) == [LAUNCHER, rank, worker]
    assert order_of(signal.SIGCONT, LAUNCHER, rank, worker) == [worker, rank, LAUNCHER]


def test_who_is_concerned_is_named_before_it_is_sent() -> None:
    scene = Scene(node(hung=False))
    told = notes(scene, [scene.processes[RANKS[2]]], signal.SIGTERM)
    assert told == [
        "no signal goes to launcher (6000) above: it may start another in its place",
        "no signal goes to dataloader worker 0–3 of rank 2 below (c tags a whole branch)",
    ]
    assert notes(scene, list(scene.snapshot.processes), signal.SIGKILL) == []


def test_the_helpers_that_clean_up_come_last_and_c_leaves_them_out() -> None:
    with sleeper() as child, sleeper() as helper:
        processes = (row(child.pid), row(helper.pid))
        observation = job(*processes)
        views = tuple(
            msgspec.structs.replace(v, role="resource tracker", rank=None) if v.pid == helper.pid else v
            for v in observation.diagnosis.processes
        )
        changed = observe(observation.snapshot, Diagnosis(verdict=Verdict.UNKNOWN, processes=views))
        scene = Scene(changed)
        assert [p.pid for p in in_order(scene, reversed(processes), signal.SIGCONT)] == [child.pid, helper.pid]
        run(
            changed,
            (("home", "c"), ("1 tagged; without those that clean up after them (1)",)),
            ("U", ("processes 2 ─",)),
        )


def test_signals_on_their_way_are_waited_for() -> None:
    """Escape does not leave before it is known what became of them."""
    with sleeper() as child:
        gate = asyncio.Event()
        sent: list[int] = []

        def held(number: int, processes: Sequence[Process]) -> object:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop[0]).result(10)
            sent.append(number)
            return SignalSender(Identity(Proc()))(number, processes)

        loop: list[asyncio.AbstractEventLoop] = []

        async def script(pilot: Pilot[int]) -> None:
            loop.append(asyncio.get_running_loop())
            await pilot.press("k")
            await settle(pilot, lambda: shows(pilot, "which signal"))
            await pilot.press(*TERM, "enter", "down", "enter")
            await settle(pilot, lambda: shows(pilot, "sending SIGTERM"))
            await pilot.press("escape", "enter")
            await settle(pilot, lambda: shows(pilot, "sending SIGTERM"))
            gate.set()
            await settle(pilot, lambda: shows(pilot, "SIGTERM was sent", "has ended"))

        play(FakeWatch(job(row(child.pid))), script, first="rank 0", send=held)
        _ended(child)
    assert sent == [signal.SIGTERM]


def _ended(child: subprocess.Popen[str]) -> None:
    assert child.wait() == -signal.SIGTERM
