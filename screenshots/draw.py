"""Draws the pictures of the README and of README.md here from recorded hangs: `python screenshots/draw.py [FOLDER]`.

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
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mpmon.reports import text as report  # noqa: E402  found by the line above
from mpmon.session.watch import ReplayWatch  # noqa: E402
from mpmon.snapshot_buffer import SnapshotBuffer  # noqa: E402
from mpmon.tui.app import MonitorApp  # noqa: E402
from mpmon.tui.options import Options  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.diagnosis.findings import Observation

HANGS = HERE.parent / "tests" / "hangs"

SMALL, LARGE = (80, 24), (120, 40)

class Picture(NamedTuple):
    """One picture of the screen."""

    recording: str
    size: tuple[int, int]
    """Columns and lines."""
    until_s: float = math.inf
    """Seconds after the beginning; else the end of the recording."""
    keys: tuple[str, ...] = ()
    """What was pressed then."""
    live: bool = True
    """As the job was seen when it ran, else as `mpmon --replay` shows it."""


SCREENS: dict[str, Picture] = {
    "hung-dataloader-120x40": Picture("dl-getitem-sleep", LARGE),
    "hung-dataloader-80x24": Picture("dl-getitem-sleep", SMALL),
    "spinning-worker": Picture("dl-getitem-spin", (120, 30)),
    "stopped-worker": Picture("dl-worker-stopped", (120, 30)),
    "healthy-loader": Picture("ok-trainer-computes", (120, 24)),
    "hung-ranks": Picture("rank-loader-worker", (120, 32)),
    "hung-threads": Picture("threads-abba", (120, 30)),
    "collective-mismatch": Picture("two-groups-order", (120, 32)),
    "ddp-hung": Picture("ddp", LARGE),
    "ddp-hung-80x24": Picture("ddp", SMALL),
    "ddp-healthy": Picture("ddp", LARGE, until_s=28.0),
    "ddp-why": Picture("ddp", (120, 32), keys=("w",)),
    "ddp-replay": Picture("ddp", LARGE, keys=("b", *["full_stop"] * 6), live=False),
    "ddp-native": Picture("gloo", (120, 36), keys=("up", "s")),
    "cuda-ipc": Picture("cuda-queue-shimmed", LARGE),
    "ipc-leak": Picture("weights", LARGE),
    "ipc-leak-shares": Picture("weights", LARGE, keys=("i",)),
}
"""By name of the file."""

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

    def __init__(self, picture: Picture) -> None:
        super().__init__(recording(picture.recording), at_once=True)
        self.live = picture.live
        self.until_s = picture.until_s
        self.last: Observation | None = None
        self.complete = threading.Event()
        self._left = threading.Event()

    def __iter__(self) -> Iterator[Observation]:
        seen = SnapshotBuffer()
        for observation in super().__iter__():
            if observation.watched_s > self.until_s:
                break
            self.last = observation
            seen.add(observation)
            yield observation
        self.buffer = seen
        self.length = None if self.live or self.last is None else self.last.number
        self.complete.set()
        self._left.wait()

    def stop(self) -> None:
        """Let go of the last picture."""
        super().stop()
        self._left.set()


def draw_screen(picture: Picture) -> str:
    """The screen as SVG."""
    watch = LastPicture(picture)
    app = MonitorApp(watch, Options(export=report.render))

    async def session() -> str:
        async with app.run_test(size=picture.size) as pilot:
            deadline = time.monotonic() + PATIENCE_S
            while not (watch.complete.is_set() and watch.last and app._scene and app._scene.observation is watch.last):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{picture.recording}: the screen did not show the end of the recording")
                await pilot.pause(0.02)
            await pilot.press(*picture.keys)
            file = f"mpmon --replay {picture.recording}.jsonl.gz"
            title = command(watch.last) if picture.live else file
            before, svg = "", tidy(app.export_screenshot(title=title))
            while svg != before:  # Textual scrolls after it has drawn.
                await pilot.pause(0.1)
                before, svg = svg, tidy(app.export_screenshot(title=title))
            app.stop_feed()
            return svg

    return asyncio.run(session())


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
    pictures = {name: draw_screen(picture) for name, picture in SCREENS.items()}
    pictures |= {name: draw_report(case) for name, case in REPORTS.items()}
    for name, svg in pictures.items():
        file = folder / f"{name}.svg"
        file.write_text(svg, encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
