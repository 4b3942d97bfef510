"""The first picture, drawn by hand before anything else is imported, which takes ten times as long as a glance at the job.

It shows its processes.  Textual's own first frame takes its place.
"""

from __future__ import annotations

from mpmon.printable import ASCII, in_place
from mpmon.tui import format as fmt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.glance import Glance

ALTERNATE_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
"""Enter the alternate screen, hide the cursor, clear: xterm's control sequences, which Textual sends again."""

LEAVE = "\x1b[?1049l\x1b[?25h"
"""Back to the normal screen, cursor shown."""


def first_frame(job: Glance, width: int, height: int, *, ascii_only: bool = False) -> str:
    """What to send to the terminal."""
    text = "\r\n".join(_lines(job, width, height))
    return ALTERNATE_SCREEN + (text.translate(str.maketrans(ASCII)) if ascii_only else text)


def _lines(job: Glance, width: int, height: int) -> list[str]:
    shown = list(job.processes)[: max(1, height - 4)]
    commands = {pid: _command(job, pid) for pid in shown}
    count = fmt.plural(len(job.processes), "process", "processes")
    title = f"{commands[shown[0]]} · pid {shown[0]} · {count} · looking …"
    heading = f"  {'process':<16}{'pid':>8} {'state':<5} {'rss':>6}  command"
    rows = [_row(job, pid, commands[pid]) for pid in shown]
    return [in_place(line)[:width] for line in (title, "", heading, *rows)]


def _row(job: Glance, pid: int, command: str) -> str:
    process = job.processes[pid]
    return f"  {process.name:<16}{pid:>8} {process.state:<5} {fmt.size(process.rss_bytes):>6}  {command}"


def _command(job: Glance, pid: int) -> str:
    cmdline = job.cmdline(pid)
    return fmt.command(cmdline) if cmdline else job.processes[pid].name
