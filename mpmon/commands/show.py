"""How observations are shown: one report, one JSON document each, one line per event, or the screen."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

from mpmon import console
from mpmon.commands.options import DEFAULT_THEME
from mpmon.errors import CannotTell, LeavesAtOnce, UsageError, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Generator
    from pathlib import Path
    from typing import Literal

    from mpmon.diagnosis.findings import Observation
    from mpmon.probes.environment import EnvironmentReader
    from mpmon.signals import SignalSender
    from mpmon.source import Watch

    Sink = Literal["report", "documents", "lines", "screen"]

EXIT_STATUS = {"healthy": 0, "slow": 0, "hung": 3, "unknown": 4}
"""Of `--once`, by verdict."""


def sink(given: Namespace) -> Sink:
    """The output that the options ask for; the screen needs a terminal.

    Cheap and without effects: a command that starts a job calls this first, so that no job is started for nothing.

    Raises:
        UsageError: they ask for two outputs at once, or for a theme that does not exist.
    """
    if given.plain and (given.once or given.json):
        raise UsageError("--plain cannot be combined with --once or --json.", "The report of --once is plain text.")
    if given.once:
        return "report"
    if given.plain:
        return "lines"
    if given.json:
        return "documents"
    if in_browser() or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb"):
        check_theme(given.theme)
        return "screen"
    return "report"


def check_theme(name: str) -> None:
    """Textual is imported only if the theme is not the default.

    Raises:
        UsageError: there is none of that name.
    """
    if name != DEFAULT_THEME:
        from mpmon.tui import themes

        themes.check(name)


def in_browser() -> bool:
    """textual-serve started this process and shows its output in a browser."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def show(given: Namespace, watch: Watch, sink: Sink) -> int:
    """Show a watch; returns the exit status."""
    return {"report": _report, "documents": _documents, "lines": _lines, "screen": _screen}[sink](given, watch)


@contextmanager
def first_frame(given: Namespace, pid: int) -> Generator[None, None, None]:
    """Show the processes before anything else is imported or read; the screen then replaces this picture."""
    from mpmon.probes.files import Proc
    from mpmon.probes.glance import Glance
    from mpmon.probes.standstill import persistently
    from mpmon.tui import first_frame

    size = os.get_terminal_size(sys.stdout.fileno())

    def frame() -> str:
        job = Glance(Proc(), pid)
        ascii_only = _draws_ascii(given)
        return first_frame.first_frame(job, size.columns, size.lines, ascii_only=ascii_only) if job.processes else ""

    text = persistently(frame)
    if not text:
        yield
        return
    _send(text)
    try:
        yield
    except LeavesAtOnce:
        raise
    except BaseException:
        # The screen did not start, so it cannot restore the terminal.
        _send(first_frame.LEAVE)
        raise


def _send(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _print_document(text: str) -> None:
    """JSON is UTF-8 (RFC 8259), whatever the terminal's encoding is."""
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.flush()


def _report(given: Namespace, watch: Watch) -> int:
    from mpmon.reports import document, text
    from mpmon.session.cadence import SOON_S

    if not given.once:
        tell("standard output is not a terminal, so this is one report (--once).")
    last: Observation | None = None
    for observation in watch:
        last = observation
        if watch.live and (
            observation.diagnosis.settled or observation.watched_s >= given.seconds - (given.interval or SOON_S) / 2
        ):
            watch.stop()
    if last is None:
        raise CannotTell("nothing could be read.", "Is the recording empty?")
    if given.json:
        _print_document(document.render_pretty(last))
    else:
        print(text.render(last, ascii_only=given.ascii), flush=True)
    return EXIT_STATUS[last.diagnosis.verdict.value]


def _documents(given: Namespace, watch: Watch) -> int:
    del given
    from mpmon.reports import document

    for observation in watch:
        _print_document(document.render(observation))
    return 0


def _lines(given: Namespace, watch: Watch) -> int:
    from mpmon.reports import plain

    for observation in watch:
        for line in plain.lines(observation, ascii_only=given.ascii):
            print(line, flush=True)
    return 0


def _screen(given: Namespace, watch: Watch) -> int:
    from mpmon import heap
    from mpmon.reports import document, text
    from mpmon.session.cadence import LONGEST_S

    heap.import_asyncio_without_tls()
    from mpmon.tui.options import Options
    from mpmon.tui.run import run

    send, environment = _reach() if watch.is_here else (None, None)
    options = Options(
        ascii_only=_draws_ascii(given), color=_color(given.color), theme=given.theme, readonly=given.readonly,
        guest=given.readonly and in_browser(), interval=given.interval or LONGEST_S, export=text.render,
        document=document.render_pretty, save=_save, send=send, environment=environment, about=given.about,
    )  # fmt: skip
    return run(watch, options)


def _save(stem: str, contents: dict[str, str], folder: Path) -> str:
    """Write files for the screen, which must not wait for a file system that does not answer.

    Raises:
        OSError: as `mpmon.tui.export.write_new`.
        Silent: the file system does not answer.
    """
    from mpmon.probes.own import asked
    from mpmon.tui.export import write_new

    return asked([str(folder)], write_new, stem, contents, folder)


def _reach() -> tuple[SignalSender, EnvironmentReader]:
    """What the screen may do to a live process, and read of it, at the user's request."""
    from mpmon.probes.environment import EnvironmentReader
    from mpmon.probes.files import Proc
    from mpmon.probes.identity import Identity
    from mpmon.signals import SignalSender

    proc = Proc()
    identity = Identity(proc)
    return SignalSender(identity), EnvironmentReader(proc, identity)


def _draws_ascii(given: Namespace) -> bool:
    """Whether a terminal needs ASCII; a browser has all glyphs."""
    return given.ascii or not (in_browser() or console.can_draw())


def _color(when: str) -> bool:
    """Textual reads NO_COLOR itself, so it is removed when colours are forced."""
    if when == "always":
        os.environ.pop("NO_COLOR", None)
    return when == "always" or (when == "auto" and not os.environ.get("NO_COLOR"))
