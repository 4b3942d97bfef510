"""Everything that happens to the app from outside or from its screens, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from mpmon.diagnosis.findings import Observation


class Observed(Message):
    """The watch has a new picture."""

    def __init__(self, observation: Observation) -> None:
        super().__init__()
        self.observation = observation

    def can_replace(self, message: Message) -> bool:
        """Only the newest picture matters."""
        return isinstance(message, Observed)


class Ended(Message):
    """The watch has no more pictures."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem
        """What went wrong and what to do, empty when nothing did."""


class EnterHost(Message):
    """The user goes into one machine of a job on several; empty for back to all of them."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host


class OpenHosts(Message):
    """The user wants to see the machines."""

    def __init__(self, first: str = "") -> None:
        super().__init__()
        self.first = first
        """Where the cursor is to be."""


class OpenPage(Message):
    """The user wants to read a page of text."""

    def __init__(self, name: str, pid: int | None = None) -> None:
        super().__init__()
        self.name = name
        """As `mpmon.tui.screens.pages.subject` takes it."""
        self.pid = pid
        """The process it is about."""


class OpenEnvironment(Message):
    """The user wants to see all variables of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid


class OpenSignals(Message):
    """The user wants to send a signal to some processes."""

    def __init__(self, pids: tuple[int, ...]) -> None:
        super().__init__()
        self.pids = pids


class Attend(Message):
    """The user looks at a process now: its stack should stay fresh."""

    def __init__(self, pid: int | None) -> None:
        super().__init__()
        self.pid = pid


class Selected(Message):
    """The user put the cursor on a process, or on something that a process uses."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid
