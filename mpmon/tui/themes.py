"""The colour themes of the screen: those of Textual."""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES

from mpmon.errors import UsageError


def check(name: str) -> None:
    """
    Raises:
        UsageError: there is no theme of this name.
    """
    if name not in BUILTIN_THEMES:
        raise UsageError(f"there is no theme {name!r}.", f"Themes are: {', '.join(sorted(BUILTIN_THEMES))}.")
