"""How the style words look. Sixteen colours of the terminal's own, so that light and dark ones both stay readable.

Colour never says anything alone: each coloured word is also a word or a mark.
"""

from __future__ import annotations

from rich.style import Style

STYLES: dict[str, Style] = {
    "": Style(),
    "bad": Style(color="red", bold=True),
    "warn": Style(color="yellow", bold=True),
    "good": Style(color="green"),
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    "title": Style(color="cyan"),
    "focus": Style(color="cyan", bold=True, reverse=True),
    "key": Style(color="cyan", bold=True),
    "place": Style(color="cyan"),
    "load": Style(color="green", dim=True),
    "waste": Style(color="yellow", dim=True),
    "memory": Style(color="cyan", dim=True),
    "power": Style(color="magenta", dim=True),
}
"""Red is trouble, yellow is slow or waiting, green is well; cyan marks places and keys.

`load`, `waste`, `memory` and `power` are for curves.
"""

CURSOR = Style(reverse=True, dim=False)
"""The row the keys act on; never dim, for reversed dim text is hard to read."""
