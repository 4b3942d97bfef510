"""Text for the clipboard of the terminal the user sits at, wherever mpmon runs: OSC 52 of xterm's control sequences.

The terminal does not answer, so what is said is what was sent.  tmux passes it on with `set -g set-clipboard on`.
"""

from __future__ import annotations

from typing import NamedTuple

LIMIT = 56_000
"""Bytes of text. xterm and tmux take sequences of 100 000 characters and less, others of 74 994 (hterm), and base64 makes
four characters of three bytes."""


class Copy(NamedTuple):
    """What is sent."""

    text: str
    whole: bool


def for_clipboard(text: str) -> Copy:
    """The text in whole lines up to the limit, without characters that a shell or an editor would take for a command."""
    harmless = "".join(c if c.isprintable() or c == "\n" else "·" for c in text)
    kept: list[str] = []
    left = LIMIT
    for line in harmless.splitlines(keepends=True):
        left -= len(line.encode())
        if left < 0:
            return Copy("".join(kept), whole=False)
        kept.append(line)
    return Copy("".join(kept), whole=True)


def said(copy: Copy, what: str, *, in_tmux: bool) -> str:
    """What to tell the user."""
    lines = copy.text.count("\n")
    size = f"{lines} line{'' if lines == 1 else 's'}" + ("" if copy.whole else ", the first of more")
    hint = "; tmux needs: set -g set-clipboard on" if in_tmux else ""
    return f"{what} sent to the clipboard ({size}){hint}"
