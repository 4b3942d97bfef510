"""The terminal as Textual drives it on Linux, but a keyboard nobody touches costs nothing; and a browser.

Textual's own thread for input wakes ten times a second for ever. This one does so for a moment after each input,
while the parser may still wait for the rest of a key, and then sleeps until there is more.
"""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from contextlib import suppress
from queue import Full
from threading import Event
from typing import TYPE_CHECKING

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver
from textual.events import Resize
from textual.messages import ExitApp

if TYPE_CHECKING:
    from textual.app import App
    from textual.message import Message

TICK_MS = 100
"""How often the parser is asked whether a key is complete."""

STALLS_AFTER_S = 0.5
"""How long the terminal may take nothing."""

TICKS = 20
"""How often after an input: longer than any delay a user sets for the escape key."""


class _Bell(Event):
    """An event a `poll` can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._hears, self._rings = os.pipe()

    def fileno(self) -> int:
        """Readable once the event is set."""
        return self._hears

    def set(self) -> None:
        """Sets it and wakes who waits."""
        if not self.is_set():
            super().set()
            os.write(self._rings, b"!")

    def clear(self) -> None:
        """Resets it."""
        if self.is_set():
            super().clear()
            os.read(self._hears, 1)


class BrowserDriver(WebDriver):
    """Ends when nobody is left at the other end, as a terminal's program does when the terminal goes.

    How large the window is says `mpmon serve`, which bounds it.
    """

    def process_message(self, message: Message) -> None:
        """What keys have turned into; a size among them (`CSI 48 ; rows ; columns ; … t`) would be one without a bound."""
        if not isinstance(message, Resize):
            super().process_message(message)

    def run_input_thread(self) -> None:
        """Turns input into messages until told to end, or until there can be no more."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self.process_message(ExitApp())


class PatientDriver(LinuxDriver):
    """Waits for input as long as it takes."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._bell = _Bell()
        self.exit_event = self._bell
        self._stalls = False
        """The terminal takes nothing, and what was to be drawn is dropped."""
        self.is_stuck = False
        """It took nothing to the end: the thread that writes is still in write(2)."""

    def write(self, data: str) -> None:
        """Text for the terminal.

        Textual waits for room, and so no key or signal would be heard while a terminal takes nothing (Ctrl-S, a connection that
        is lost).  Here the text is dropped after a moment; once the terminal takes some again, all is drawn anew.
        """
        room = self._writer_thread._queue if self._writer_thread else None  # pyright: ignore[reportPrivateUsage]
        if room is None:
            return
        try:
            room.put(data, timeout=0.0 if self._stalls else STALLS_AFTER_S)
        except Full:
            self._stalls = True
            return
        if self._stalls:
            self._stalls = False
            self._app.call_later(self._app.refresh, layout=True)

    def close(self) -> None:
        """Waits for a moment until all is written."""
        writer = self._writer_thread
        if writer is None:
            return
        with suppress(Full):
            writer._queue.put(None, timeout=0.0 if self._stalls else STALLS_AFTER_S)  # pyright: ignore[reportPrivateUsage]
        writer.join(STALLS_AFTER_S)
        self.is_stuck = writer.is_alive()

    @property
    def can_suspend(self) -> bool:
        """A shell with job control gave mpmon a process group of its own. In one that leads the session there is nobody to resume
        it (`ssh -t HOST mpmon PID`); in that of a wrapper, such as `uv run`, the shell goes on waiting for the wrapper.
        """
        return os.getsid(0) != os.getpgrp() == os.getpid()

    def _sigcont_application(self, *_: object) -> None:
        """Takes the terminal back after Ctrl-Z only.

        The kernel sends SIGCONT also where the terminal goes (`disassociate_ctty`), and anybody may.  Textual would start its
        threads a second time: two would share the keys, and the first ones would never end.
        """
        if self._must_signal_resume:
            super()._sigcont_application()

    def _get_terminal_size(self) -> tuple[int, int]:
        """That of the terminal; COLUMNS and LINES, which Textual asks first, are as old as the shell that exported them."""
        try:
            width, height = os.get_terminal_size(self.fileno)
        except OSError:
            width = height = 0
        return (width, height) if width and height else super()._get_terminal_size()

    def run_input_thread(self) -> None:
        """Turns input into messages until told to end."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")().decode
        poll = select.poll()  # a plain select knows no descriptors from 1024 on
        poll.register(self.fileno, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        ticks = TICKS
        while not self._bell.is_set():
            ready = [fd for fd, _ in poll.poll(TICK_MS if ticks else None)]
            ticks = max(0, ticks - 1)
            if self.fileno in ready:
                ticks = TICKS
                read = os.read(self.fileno, 4096)
                if not read:  # end of file: nothing more will come
                    poll.unregister(self.fileno)
                for message in parser.feed(text) if (text := decode(read)) else ():
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)
