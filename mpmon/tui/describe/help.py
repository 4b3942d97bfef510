"""The page of keys, made of the tables that bind them."""

from __future__ import annotations

from mpmon.tui.keys import APP_KEYS, BUILT_IN, ENVIRONMENT_KEYS, MAIN_KEYS, PAGE_KEYS, SIGNAL_KEYS
from mpmon.tui.line import BLANK, Line, fit, plain, wrap

KEYS_WIDTH = 26


def help_lines(width: int) -> list[Line]:
    """Every key that works now, in groups."""
    groups = (
        ("everywhere", [(k.shown, k.help) for k in APP_KEYS]),
        ("moving", list(BUILT_IN)),
        ("main screen", [(k.shown, k.help) for k in MAIN_KEYS]),
        ("pages", [(k.shown, k.help) for k in PAGE_KEYS]),
        ("environment", [(k.shown, k.help) for k in ENVIRONMENT_KEYS]),
        ("signals", [(k.shown, k.help) for k in SIGNAL_KEYS]),
    )
    lines: list[Line] = []
    for title, keys in groups:
        lines += [plain(title, "title"), *(line for shown, does in keys for line in _key(shown, does, width)), BLANK]
    return lines[:-1]


def _key(shown: str, does: str, width: int) -> list[Line]:
    """The key in its column, what it does beside it."""
    first, *rest = wrap(does, width - KEYS_WIDTH - 2) or [BLANK]
    lines: list[Line] = [(("  " + fit(shown, KEYS_WIDTH), "key"), *first)]
    return lines + [((" " * (KEYS_WIDTH + 2), ""), *line) for line in rest]
