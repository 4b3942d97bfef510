"""The page of keys, made of the tables that bind them."""

from __future__ import annotations

from collections.abc import Collection

from mpmon.tui.keys import (
    APP_KEYS,
    BUILT_IN,
    ENVIRONMENT_KEYS,
    HOST_KEYS,
    MAIN_KEYS,
    PAGE_KEYS,
    SIGNAL_KEYS,
    SIGNALS,
    offered,
)
from mpmon.tui.line import BLANK, Line, fit, plain, wrap

KEYS_WIDTH = 26

NOTATION: tuple[tuple[str, str], ...] = (
    ("20 s+", "at least 20 s: ages are shown in steps of ten seconds, later of a minute"),
    ("<10 s", "less than ten seconds"),
    ("0–1", "from 0 to 1: numbers of ranks or workers, or the lowest and the highest value of several"),
    ("+1", "behind a name: one more process is folded into the line (+ shows it)"),
    ("×3", "three processes share the line, or three devices the cell"),
    ("–", "not known, or there is none"),
    ("mp lock", "a multiprocessing lock: where there is little room, waits are told in few words"),
)
"""What is not said in words on the screen."""


def help_lines(width: int, withheld: Collection[str] = ()) -> list[Line]:
    """Every key that works now, in groups, and what the signs on the screen mean."""
    tables = (
        ("everywhere", APP_KEYS),
        ("main screen", MAIN_KEYS),
        ("pages", PAGE_KEYS),
        ("hosts", HOST_KEYS),
        ("environment", ENVIRONMENT_KEYS),
        ("signals", () if SIGNALS in withheld else SIGNAL_KEYS),
    )
    groups = [(title, [(k.shown, k.help) for k in offered(table, withheld)]) for title, table in tables]
    groups.insert(1, ("moving", list(BUILT_IN)))
    groups.append(("notation", list(NOTATION)))
    lines: list[Line] = []
    for title, keys in (group for group in groups if group[1]):
        lines += [plain(title, "title"), *(line for shown, does in keys for line in _key(shown, does, width)), BLANK]
    return lines[:-1]


def _key(shown: str, does: str, width: int) -> list[Line]:
    """The key in its column, what it does beside it."""
    first, *rest = wrap(does, width - KEYS_WIDTH - 2) or [BLANK]
    lines: list[Line] = [(("  " + fit(shown, KEYS_WIDTH), "key"), *first)]
    return lines + [((" " * (KEYS_WIDTH + 2), ""), *line) for line in rest]
