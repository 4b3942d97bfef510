"""Every key, once: bindings, the help page, the line of keys and the palette are all read from these tables."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding


class Key(NamedTuple):
    """One thing the user can do."""

    keys: str
    """Names Textual knows, separated by commas."""
    shown: str
    """The keys as a person writes them."""
    action: str
    """The action's name, as in `action_quit`."""
    help: str
    """What it does, for the help page and the palette."""
    label: str = ""
    """One word for the line of keys; empty keeps it off that line."""
    replay: bool = False
    """Only while a recording is replayed."""
    always: bool = False
    """Works whatever has the keyboard, also a text field."""


APP_KEYS: tuple[Key, ...] = (
    Key("q,Q,f10", "q F10", "quit", "quit mpmon; the job goes on and gets no signal", "quit"),
    Key("ctrl+c", "Ctrl-C", "quit", "the same, from everywhere", always=True),
    Key("h,question_mark,f1", "h ? F1", "help", "this page", "help"),
    Key("p", "p", "pause", "pause the display; of a recording: play or pause", "pause"),
    Key("full_stop", ".", "step", "the next picture of the recording", "step", replay=True),
    Key("right_square_bracket", "]", "faster", "play twice as fast", replay=True),
    Key("left_square_bracket", "[", "slower", "play half as fast", replay=True),
    Key("r", "r", "look", "look at everything now"),
    Key("x", "x", "export", "write what is on the screen to files here: text and SVG", "export"),
)
"""Work on every screen."""

MAIN_KEYS: tuple[Key, ...] = (
    Key("enter", "Enter", "details", "details: stacks, waits, files, environment, command line", "open"),
    Key("s", "s", "stacks", "stacks of the selected process", "stacks"),
    Key("S", "S", "groups", "stacks of all processes, equal ones together"),
    Key("w", "w", "why", "why: the wait chain, the evidence, what to do", "why"),
    Key("slash", "/", "filter", "filter processes; Enter keeps the filter, Esc clears it", "filter"),
    Key("n", "n", "next_match", "next process that matches"),
    Key("N", "N", "previous_match", "previous process that matches"),
    Key("t,f5", "t F5", "tree", "tree or list", "tree"),
    Key("plus", "+", "expand", "expand the selected branch"),
    Key("minus", "-", "collapse", "collapse the selected branch"),
    Key("asterisk", "*", "expand_all", "expand or collapse all branches"),
    Key("f6,greater_than_sign", "F6 >", "sort_next", "list: sort by the next column"),
    Key("less_than_sign", "<", "sort_previous", "list: sort by the column before"),
    Key("I", "I", "invert", "list: invert the order"),
    Key("F", "F", "follow", "follow the suspect, or the selected role while there is none"),
    Key("left", "←", "thread(-1)", "thread before, of the selected process"),
    Key("right", "→", "thread(1)", "next thread of the selected process"),
    Key("escape", "Esc", "clear", "clear the filter; never quits"),
)
"""Work on the main screen."""

PAGE_KEYS: tuple[Key, ...] = (Key("escape,backspace", "Esc", "close", "back to the main screen", "back"),)
"""Work on a page of text."""

BUILT_IN: tuple[tuple[str, str], ...] = (
    ("↑ ↓ PgUp PgDn Home End", "move; the mouse wheel and clicks work too"),
    ("Tab Shift-Tab", "next panel, panel before"),
    ("1 2", "the panel of that number; once more: make it large, or small again"),
    ("Ctrl-P", "the palette: every action by name, and themes"),
)
"""What Textual or a table of panels does."""


def bindings(table: tuple[Key, ...]) -> list[Binding]:
    """The table as Textual takes it."""
    return [Binding(k.keys, k.action, k.help, show=False, priority=k.always) for k in table]


def labels(table: tuple[Key, ...], *, replay: bool) -> tuple[tuple[str, str], ...]:
    """Key and word for the line of keys."""
    return tuple((k.shown.split()[0], k.label) for k in table if k.label and (replay or not k.replay))
