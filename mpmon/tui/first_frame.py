"""The first picture, drawn by hand before Textual is imported, which takes ten times as long as the first look.

It shows what one cheap round knows: the processes of the job.  Textual's own first frame takes its place.
"""

from __future__ import annotations

from mpmon.model import Process, Snapshot
from mpmon.printable import in_place
from mpmon.tui import format as fmt

ALTERNATE_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
"""Enter the alternate screen, hide the cursor, clear: xterm's control sequences, which Textual sends again."""

LEAVE = "\x1b[?1049l\x1b[?25h"
"""Back to the normal screen, cursor shown."""

_PLAIN = str.maketrans({"·": "-", "├": "|", "└": "`", "─": "-", "…": "~", "–": "-"})


def first_frame(snapshot: Snapshot, width: int, height: int, *, ascii_only: bool = False) -> str:
    """What to send to the terminal."""
    text = "\r\n".join(_lines(snapshot, width, height))
    return ALTERNATE_SCREEN + (text.translate(_PLAIN) if ascii_only else text)


def _lines(snapshot: Snapshot, width: int, height: int) -> list[str]:
    count = fmt.plural(len(snapshot.processes), "process", "processes")
    title = f"{_command(snapshot.root)} · pid {snapshot.root_pid} · {count} · looking …"
    heading = f"  {'process':<16}{'pid':>8} {'rss':>6}  command"
    rows = [_row(process) for process in snapshot.processes[: max(0, height - 4)]]
    return [in_place(line)[:width] for line in (title, "", heading, *rows)]


def _row(process: Process) -> str:
    return f"  {process.name:<16}{process.pid:>8} {fmt.size(process.rss_bytes):>6}  {_command(process)}"


def _command(process: Process | None) -> str:
    return fmt.command(process.cmdline) if process and process.cmdline else process.name if process else ""
