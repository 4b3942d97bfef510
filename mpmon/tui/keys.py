"""Every key, once: bindings, the help page, the line of keys and the palette are all read from these tables."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from textual.binding import Binding


class Key(NamedTuple):
    """One thing the user can do."""

    keys: str
    """Names Textual knows, separated by commas."""
    shown: str
    """The keys as a person writes them."""
    action: str
    """The action's name, as in `action_quit`, with its arguments if it takes any."""
    help: str
    """What it does, for the help page and the palette."""
    label: str = ""
    """One word for the line of keys; empty keeps it off that line."""
    place: int = 5
    """On that line lower ones come first: what does not fit is left out at the end."""
    replay: bool | None = None
    """On that line only while a recording is replayed, or only while none is."""
    always: bool = False
    """Works whatever has the keyboard, also a text field."""


SIGNALS, EXPORT, UNMASK = "signals", "export", "unmask"
"""Actions that do more than look at the job."""

# fmt: off

TMUX_NEEDS = "in tmux this needs `set -g set-clipboard on`"

APP_KEYS: tuple[Key, ...] = (
    Key("q,Q,f10", "q F10", "quit", "quit mpmon; the job continues and gets no signal", "quit", place=0),
    Key("ctrl+c", "Ctrl-C", "quit", "the same, from everywhere", always=True),
    Key("ctrl+z", "Ctrl-Z", "suspend_process", "suspend mpmon, `fg` in the shell resumes it; the job continues",
        always=True),
    Key("h,question_mark,f1", "h ? F1", "help", "this page", "help", place=0),
    Key("p", "p", "pause", "pause, or return to live; in a recording: pause or play", "pause", place=2),
    Key("comma", ",", "look_back", "pause and step back one snapshot", "back", place=2, replay=True),
    Key("full_stop", ".", "step", "pause and step forward one snapshot", "step", place=2, replay=True),
    Key("b", "b", "hang", "pause and jump to where the hang began", "start", place=2, replay=True),
    Key("right_square_bracket", "]", "speed(2.0)", "in a recording: play twice as fast"),
    Key("left_square_bracket", "[", "speed(0.5)", "in a recording: play half as fast"),
    Key("r", "r", "look", "refresh everything now"),
    Key("x", "x", EXPORT, "save the screen to files here: text, JSON and SVG", "save"),
    Key("y", "y", "copy", f"copy the report, or the text of the page, to the terminal's clipboard; {TMUX_NEEDS}",
        "copy", place=9),
)
"""Work on every screen."""

MAIN_KEYS: tuple[Key, ...] = (
    Key("enter", "Enter", "page('details')",
        "details: stacks, waits, files, environment, command line; for ranks not queried: their host",
        "open", place=4),
    Key("s", "s", "page('stacks')", "stacks of the selected process", "stacks"),
    Key("S", "S", "page('groups')", "stacks of all processes, identical ones grouped"),
    Key("w", "w", "page('why')", "why: the wait chain, the evidence, what to do", "why", place=3),
    Key("i", "i", "page('ipc')", "all queues, CUDA memory sent to others, shared memory", "queues", place=7),
    Key("H", "H", "hosts", "hosts of a multi-machine job: the state of each, and commands to copy"),
    Key("l", "l", "page('events')", "log of events since mpmon started", "log", place=7),
    Key("e", "e", "environment", "environment of the selected process, secrets masked", "env", place=7),
    Key("slash", "/", "filter", "filter processes; Enter keeps the filter, Esc clears it", "filter"),
    Key("n", "n", "match(1)", "next process that matches"),
    Key("N", "N", "match(-1)", "previous process that matches"),
    Key("t,f5", "t F5", "tree", "tree or list", "tree", place=6),
    Key("k,f9", "k F9", SIGNALS, "send a signal to the tagged processes, or the selected one; asks first",
        "signal", replay=False),
    Key("space", "Space", "tag", "tag or untag the selected process"),
    Key("c", "c", "tag_branch", "tag the selected process and all that work for it"),
    Key("U", "U", "untag", "untag all"),
    Key("plus", "+", "fold(False)", "expand the branch, or split processes that share a line"),
    Key("minus", "-", "fold(True)", "collapse the branch, or rejoin equal processes"),
    Key("asterisk", "*", "fold_all", "expand all, or fold what does not fit"),
    Key("f6,greater_than_sign", "F6 >", "sort(1)", "list: sort by the next column"),
    Key("less_than_sign", "<", "sort(-1)", "list: sort by the previous column"),
    Key("I", "I", "invert", "list: invert the order"),
    Key("F", "F", "follow", "follow the suspect, or the selected role while there is none"),
    Key("left", "←", "thread(-1)", "previous thread of the selected process"),
    Key("right", "→", "thread(1)", "next thread of the selected process"),
    Key("escape", "Esc", "clear", "clear the filter, leave the host; never quits"),
)
"""Work on the main screen."""

PAGE_KEYS: tuple[Key, ...] = (Key("escape,backspace", "Esc", "close", "back to the main screen", "back", place=0),)
"""Work on a page of text."""

HOST_KEYS: tuple[Key, ...] = (
    Key("enter", "Enter", "enter", "open the host: its processes as on one machine; Esc returns", "enter", place=0),
)
"""Work on the page of hosts."""

ENVIRONMENT_KEYS: tuple[Key, ...] = (Key("v", "v", UNMASK, "show masked values, or hide them again", "values"),)
"""Work on the page of an environment."""

SIGNAL_KEYS: tuple[Key, ...] = (
    Key("enter", "Enter", "choose", "choose", "choose", place=0),
    Key("escape,backspace", "Esc", "cancel", "cancel; nothing is sent", "cancel", place=0),
)
"""Work in the dialog of signals."""

# fmt: on

BUILT_IN: tuple[tuple[str, str], ...] = (
    ("↑ ↓ PgUp PgDn Home End", "move; the mouse wheel and clicks work too"),
    ("Tab Shift-Tab", "next panel, previous panel"),
    ("1 2 3 4", "the panel in that position from the top; again: enlarge or restore it"),
    ("Ctrl-P", "the palette: every action by name, and themes"),
)
"""What Textual or a table of panels does."""


def bindings(table: tuple[Key, ...]) -> list[Binding]:
    """The table as Textual takes it."""
    return [Binding(k.keys, k.action, k.help, show=False, priority=k.always) for k in table]


class Label(NamedTuple):
    """A key on the line of keys."""

    key: str
    word: str
    action: str
    """What a click does, as Textual names it."""


def offered(table: tuple[Key, ...], withheld: Collection[str]) -> tuple[Key, ...]:
    """The keys of a table without those whose action is withheld."""
    return tuple(k for k in table if k.action not in withheld)


def labels(table: tuple[Key, ...], *, replay: bool) -> tuple[Label, ...]:
    """The keys that are on the line of keys."""
    return tuple(
        Label(k.shown.split()[0], k.label, f"{'app' if k in APP_KEYS else 'screen'}.{k.action}")
        for k in sorted(table, key=lambda k: k.place)
        if k.label and k.replay in (None, replay)
    )
