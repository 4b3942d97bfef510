"""The app: starts the feed, keeps the picture that is shown, and hands it to the screens."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.filter import LineFilter, NoColor

from mpmon.errors import MpmonError
from mpmon.tui.background import in_background
from mpmon.tui.clipboard import for_clipboard, said
from mpmon.tui.describe.hosts import tardy
from mpmon.tui.export import file_stem
from mpmon.tui.feed import Feed
from mpmon.tui.format import age
from mpmon.tui.keys import APP_KEYS, bindings, offered
from mpmon.tui.messages import Attend, Ended, EnterHost, Observed, OpenEnvironment, OpenHosts, OpenPage, OpenSignals
from mpmon.tui.options import ONLY_LOOKS, Options
from mpmon.tui.player import Player
from mpmon.tui.scene import Scene
from mpmon.tui.screens.framed import Display, Framed
from mpmon.tui.screens.main import MainScreen
from mpmon.tui.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.binding import BindingType
    from textual.driver import Driver
    from textual.screen import Screen
    from textual.timer import Timer

    from mpmon.source import Watch

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""They end mpmon as its user would, so that the terminal is left as it was."""

COUNTED_S = 0.5
"""How often a recording is asked for its length until that is known."""

GARBAGE = 10_000
"""New objects after which it is worth to search the youngest ones for cycles."""


class MonitorApp(App[int]):
    """Everything the user sees of a watch."""

    TITLE = "mpmon"
    CSS_PATH = "app.tcss"
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP_KEYS)]

    def __init__(self, watch: Watch, options: Options | None = None) -> None:
        super().__init__()
        self._options = options or Options()
        self.theme = self._options.theme
        self.animation_level = "none"
        self._own_filters = _filters(
            ascii_only=self._options.ascii_only, color=self._options.color and not self.no_color
        )
        self._watch = watch
        self._feed = Feed(watch, self.post_message)
        self._player = Player(watch)
        self._silence = Silence(self._options.interval)
        self._scene: Scene | None = None
        self._ended: str | None = None
        """What to say since the watch ended; `None` while it goes on."""
        self._is_writing = False
        """Files of the export key."""
        self._counting: Timer | None = None
        """Asks for the length of a recording until it is known."""

    def get_default_screen(self) -> Screen[None]:
        """The main screen lies at the bottom."""
        return MainScreen(replay=not self._watch.live, withheld=self._options.withheld)

    def get_driver_class(self) -> type[Driver]:
        """Ours in place of Textual's for Linux; another one may be named in the environment."""
        chosen = super().get_driver_class()
        from mpmon.tui import driver

        return {"LinuxDriver": driver.PatientDriver, "WebDriver": driver.BrowserDriver}.get(chosen.__name__, chosen)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and those the command line asks for."""
        return [*super().get_line_filters(), *self._own_filters]

    def on_mount(self) -> None:
        """The first frame is there before the first observation."""
        self.app_resume_signal.subscribe(self, self._resumed)
        self._show()
        # What was imported stays, and what comes is seldom garbage that only a search would find.
        gc.freeze()
        gc.set_threshold(GARBAGE)
        self._feed.start()
        for number in ENDING_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self.exit, 128 + number)
        if self._watch.live:
            self.set_interval(1.0, self._notice_silence)
        else:
            self._counting = self.set_interval(COUNTED_S, self._note_length)

    def _fatal_error(self) -> None:
        """Ends without Textual's page of local variables: who runs the app says in a sentence what `failure` is."""
        self._close_messages_no_wait()

    @property
    def failure(self) -> Exception | None:
        """The defect the screen ended with."""
        return self._exception

    @property
    def is_stuck(self) -> bool:
        """The terminal took nothing of what was written last."""
        return bool(getattr(self._driver, "is_stuck", False))

    # From the feed

    def on_observed(self, message: Observed) -> None:
        """A new picture: shown, or kept while the display is paused."""
        self._silence.heard()
        self._player.arrived(message.observation)
        self._turn(self._player.searched())

    def on_ended(self, message: Ended) -> None:
        """The last picture stays; that a recording is at its end stands in the headline."""
        self._ended = message.problem or ("the job ended" if self._watch.live else None)
        self._show()

    def stop_feed(self) -> None:
        """Tells the watch to stop, and waits for it only briefly."""
        self._feed.stop()

    # From the screens

    def on_attend(self, message: Attend) -> None:
        """The watch keeps the stack of that process fresh."""
        self._watch.attend(message.pid)

    def on_open_page(self, message: OpenPage) -> None:
        """Lays a page on top; one that is already open is not opened again."""
        from mpmon.tui.screens.pages import Page, subject

        wanted = subject(message.name, self._options.withheld)
        if not (isinstance(self.screen, Page) and self.screen.subject.title == wanted.title):
            self._lay(Page(wanted, message.pid, self._options.withheld))

    def on_open_hosts(self, message: OpenHosts) -> None:
        """Lays the page of machines on top."""
        from mpmon.tui.screens.hosts import HostsPage

        if self._scene is None or not self._scene.hosts:
            self._say("this job is watched on one machine")
        elif not isinstance(self.screen, HostsPage):
            self._lay(HostsPage(message.first, self._options.withheld))

    def on_enter_host(self, message: EnterHost) -> None:
        """Shows the processes of one machine, and has the watch ask it."""
        main = self.screen_stack[0]
        if isinstance(main, MainScreen):
            main.enter(message.host)
            self._watch.enter(message.host)

    def on_open_environment(self, message: OpenEnvironment) -> None:
        """Lays the page on top that asks a live process for its variables."""
        from mpmon.tui.screens.environment import EnvironmentPage

        source = self._options.environment if self._watch.live else None
        self._lay(EnvironmentPage(message.pid, source, self._options.withheld))

    def on_open_signals(self, message: OpenSignals) -> None:
        """Lays the dialog on top, or says why there is none."""
        scene, send = self._scene, self._options.send
        rows = [scene.processes[pid] for pid in message.pids if pid in scene.processes] if scene else []
        living = [row for row in rows if not row.ended]
        if self._options.guest:
            self._say(f"no signals: {ONLY_LOOKS}")
        elif self._options.readonly:
            self._say("no signals: mpmon was started with --readonly")
        elif not self._watch.live:
            self._say("no signals: this is a recording, its processes may be gone and their pids reused")
        elif send is None:
            self._say("no signals: mpmon cannot send any here")
        elif not living:
            self._say("no signals: it has ended")
        else:
            from mpmon.tui.screens.signals import SignalDialog

            self._lay(SignalDialog(living, send))

    def _lay(self, screen: Framed) -> None:
        """Lays a screen on top."""
        self.push_screen(screen)
        self._show()

    # What is shown

    def _show(self) -> None:
        """Hands scene and state to every screen that shows them."""
        shown = self._player.shown
        if shown is not None and (self._scene is None or self._scene.observation is not shown):
            self._scene = Scene(shown, self._scene)
        marks = ("read-only",) if self._options.readonly else ()
        display = Display(
            self._watch.title, self._watch.live, (*marks, *self._player.marks()), self._news(), self._options.about
        )
        for screen in self.screen_stack:
            if isinstance(screen, Framed):
                screen.display_state = display
                screen.scene = self._scene

    def _news(self) -> str:
        """What to tell below the headline, the most important first."""
        parts: list[str] = []
        if self._ended is not None:
            parts.append(self._ended)
        elif self._is_silent():
            parts.append(f"nothing new for {age(self._silence.seconds)}: sampling the job takes long")
        if self._scene is not None:
            parts += [tardy(self._scene), *self._scene.complaints]
        return " · ".join(filter(None, parts))

    def _is_silent(self) -> bool:
        return self._watch.live and self._ended is None and self._silence.is_long

    def _notice_silence(self) -> None:
        if self._is_silent():
            self._show()

    def _note_length(self) -> None:
        """How long a recording is may be known only while it is paused."""
        if self._watch.length is not None and self._counting is not None:
            self._counting.stop()
            self._turn(self._player.searched())

    def _say(self, text: str) -> None:
        if isinstance(self.screen, Framed):
            self.screen.notice(text)

    # Keys

    async def action_quit(self) -> None:
        """Leaves; the job is not touched."""
        self.exit(0)

    def action_suspend_process(self) -> None:
        """Back to the shell until that resumes mpmon; the job goes on."""
        if self._driver is not None and self._driver.can_suspend:
            super().action_suspend_process()
        else:
            self._say("not suspended: there is no shell here that could resume mpmon")

    def _resumed(self, _app: App[object]) -> None:
        """The terminal is blank, and nothing could be new while mpmon was suspended."""
        self._silence.heard()
        self.refresh(layout=True)

    def action_help(self) -> None:
        """The page of keys."""
        self.post_message(OpenPage("help"))

    def action_pause(self) -> None:
        """Freezes the picture, or plays on; the watch of a live job goes on behind it."""
        self._player.toggle()
        self._show()

    def action_step(self) -> None:
        """One picture further."""
        self._turn(self._player.step())

    def action_look_back(self) -> None:
        """One picture back."""
        self._turn(self._player.back())

    def action_hang(self) -> None:
        """To where the hang began."""
        self._turn(self._player.to_hang())

    def _turn(self, said: str) -> None:
        self._show()
        if said:
            self._say(said)

    def action_speed(self, factor: float) -> None:
        """Plays a recording so much faster."""
        self._player.faster(factor)
        self._show()

    def action_look(self) -> None:
        """An expensive look at everything, at once."""
        self._watch.look_now()
        self._say("refreshing everything now")

    def action_export(self) -> None:
        """Writes the report and a picture of the screen into the current directory."""
        if self._options.guest:
            self._say(f"no files: {ONLY_LOOKS}")
            return
        if self._scene is None:
            self._say("nothing to export yet")
            return
        if self._is_writing:
            self._say("the previous files are still being written")
            return
        self._is_writing = True
        reports = {".txt": self._options.export, ".json": self._options.document}
        contents = {suffix: report(self._scene.observation) for suffix, report in reports.items() if report is not None}
        contents[".svg"] = self.export_screenshot()
        stem = file_stem(self._scene.snapshot)
        in_background("export", lambda: self._written(self._saved(stem, contents)), self._written)

    def _saved(self, stem: str, contents: dict[str, str]) -> str:
        """What became of these files, in words; in the thread behind the screen."""
        try:
            name = self._options.save(stem, contents, Path.cwd())
        except OSError as problem:
            return f"not written: {problem.strerror}: {problem.filename or 'the current folder'}"
        except MpmonError as problem:
            return f"not written: {problem}"
        return f"written: {name}{' '.join(contents)}"

    def _written(self, words: str) -> None:
        """In the thread behind the screen."""
        self._is_writing = False
        self.call_later(self._say, words)

    def action_copy(self) -> None:
        """Sends the text of the page, or the report, to the clipboard of the terminal."""
        text, what = (self.screen.copied(), "page") if isinstance(self.screen, Framed) else ("", "")
        if not text and self._scene is not None and self._options.export is not None:
            text, what = self._options.export(self._scene.observation), "report"
        if not text:
            self._say("nothing to copy yet")
            return
        copy = for_clipboard(text)
        self.copy_to_clipboard(copy.text)
        self._say(said(copy, what, in_tmux="TMUX" in os.environ))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every key of the screen by name, without those for the same thing from everywhere."""
        withheld = self._options.withheld
        for key in (key for key in offered(APP_KEYS, withheld) if not key.always):
            yield SystemCommand(key.help, f"key {key.shown}", partial(self.run_action, key.action))
        for key in offered(screen.table, withheld) if isinstance(screen, Framed) else ():
            yield SystemCommand(key.help, f"key {key.shown}", partial(self.run_action, f"screen.{key.action}"))
        yield SystemCommand("theme: other colours", "choose one", self.action_change_theme)


def _filters(*, ascii_only: bool, color: bool) -> list[LineFilter]:
    """What every line runs through; made once, for Textual keeps what a filter made of a line by the filter."""
    filters: list[LineFilter] = [] if color else [NoColor()]
    if ascii_only:
        from mpmon.tui.ascii import AsciiFilter

        filters.append(AsciiFilter())
    return filters
