"""Draws the pictures of the README from recorded hangs: `python screenshots/draw.py [FOLDER]`.

Each picture is the real screen at a moment of a recording, drawn without a terminal: the cases of `tests/hangs/`, and what
`screenshots/record.py` made.
The same recordings and the same Textual give the same files, byte for byte.
"""

from __future__ import annotations

import asyncio
import io
import math
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mpmon.reports import text as report  # noqa: E402  found by the line above
from mpmon.session.watch import ReplayWatch  # noqa: E402
from mpmon.tui.app import MonitorApp  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.diagnosis.findings import Observation

HANGS = HERE.parent / "tests" / "hangs"

SMALL, LARGE = (80, 24), (120, 40)

SCREENS: dict[str, tuple[str, tuple[int, int]]] = {
    "hung-dataloader-120x40": ("dl-getitem-sleep", LARGE),
    "hung-dataloader-80x24": ("dl-getitem-sleep", SMALL),
    "spinning-worker": ("dl-getitem-spin", (120, 30)),
    "stopped-worker": ("dl-worker-stopped", (120, 30)),
    "healthy-loader": ("ok-trainer-computes", (120, 24)),
    "hung-ranks": ("rank-loader-worker", (120, 32)),
    "hung-threads": ("threads-abba", (120, 30)),
    "collective-mismatch": ("two-groups-order", (120, 32)),
    "ddp-hung": ("ddp", (120, 40)),
    "ddp-hung-80x24": ("ddp", SMALL),
    "ddp-healthy": ("ddp", (120, 40)),
}
"""Pictures of the live screen: name of the file, recorded case, columns and lines."""

UNTIL_S = {"ddp-healthy": 28.0}
"""Pictures of another moment than the end: seconds after the beginning."""

REPORTS = {"report": "dl-getitem-sleep"}
"""Pictures of the report as text."""

PATIENCE_S = 30.0
"""A recording is replayed within a second; more means that the screen is broken."""

CELL = 12.2
"""Width of a character in the SVG that Rich makes."""

TEXT = re.compile(
    r'<text class="(?P<kind>[^"]+)" x="(?P<x>[^"]+)" y="(?P<y>[^"]+)" textLength="(?P<length>[^"]+)"'
    r' clip-path="[^"]+">(?P<words>[^<]*)</text>'
)
"""One run of text of one style."""

CLIPS = re.compile(r'<clipPath id="terminal-line-.*?</clipPath>\n?', re.DOTALL)
"""They cut each line at its cell, which no line leaves."""

FONT = '"Fira Code", "DejaVu Sans Mono", Menlo, Consolas, monospace'


class LastPicture(ReplayWatch):
    """A recording played to its end, where it stays as a live job would."""

    live = True

    def __init__(self, case: str, until_s: float) -> None:
        super().__init__(recording(case), at_once=True)
        self.until_s = until_s
        self.last: Observation | None = None
        self.complete = threading.Event()
        self._left = threading.Event()

    def __iter__(self) -> Iterator[Observation]:
        for observation in super().__iter__():
            if observation.watched_s > self.until_s:
                break
            self.last = observation
            yield observation
        self.complete.set()
        self._left.wait()

    def stop(self) -> None:
        """Let go of the last picture."""
        super().stop()
        self._left.set()


def draw_screen(case: str, size: tuple[int, int], until_s: float) -> str:
    """The live screen as SVG."""
    watch = LastPicture(case, until_s)
    app = MonitorApp(watch, export=report.render)

    async def session() -> str:
        async with app.run_test(size=size) as pilot:
            deadline = time.monotonic() + PATIENCE_S
            while not (watch.complete.is_set() and watch.last and app._scene and app._scene.observation is watch.last):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{case}: the screen did not show the end of the recording")
                await pilot.pause(0.02)
            await pilot.pause()
            picture = app.export_screenshot(title=command(watch.last))
            app.stop_feed()
            return picture

    return tidy(asyncio.run(session()))


def draw_report(case: str) -> str:
    """The report of `--once` as SVG."""
    *_, last = ReplayWatch(recording(case), at_once=True)
    words = report.render(last)
    width = max(map(len, words.splitlines()))
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(words), end="")
    return tidy(console.export_svg(title=f"{command(last)} --once"))


def recording(case: str) -> Path:
    """The facts of a recorded case."""
    own = HERE / "recordings" / f"{case}.jsonl.gz"
    return own if own.exists() else HANGS / case / "recording.jsonl.gz"


def command(shown: Observation) -> str:
    """What a user would have typed to see it."""
    return f"mpmon {shown.snapshot.root_pid}"


def tidy(svg: str) -> str:
    """No number that differs from run to run, and no font fetched from elsewhere."""
    svg = re.sub(r"terminal-\d+-", "terminal-", svg)
    svg = CLIPS.sub("", TEXT.sub(without_edge_blanks, svg))
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    svg = svg.replace("font-family: Fira Code, monospace", f"font-family: {FONT}")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def without_edge_blanks(run: re.Match[str]) -> str:
    """A run of text without blanks at its ends, which some renderers drop without moving the rest."""
    words = run["words"].replace("&#160;", "\xa0")
    bare = words.strip()
    if not bare:
        return ""
    x = float(run["x"]) + (len(words) - len(words.lstrip())) * CELL
    length = float(run["length"]) - (len(words) - len(bare)) * CELL
    bare = bare.replace("\xa0", "&#160;")
    return f'<text class="{run["kind"]}" x="{x:g}" y="{run["y"]}" textLength="{length:g}">{bare}</text>'


def main() -> None:
    """Draw everything."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.environ.pop("NO_COLOR", None)
    pictures = {name: draw_screen(*what, UNTIL_S.get(name, math.inf)) for name, what in SCREENS.items()}
    pictures |= {name: draw_report(case) for name, case in REPORTS.items()}
    for name, svg in pictures.items():
        file = folder / f"{name}.svg"
        file.write_text(svg, encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
