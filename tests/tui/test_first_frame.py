"""The first picture: the job, its processes and their states, whatever they call themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mpmon.probes.files import Proc
from mpmon.probes.glance import Glance
from mpmon.tui.first_frame import ALTERNATE_SCREEN, first_frame


def process(proc: Path, pid: int, ppid: int, *, state: str, command: str, name: str = "python") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    fields = [state, str(ppid), "10", "10", *["0"] * 15, str(pid), "0", "256", *["0"] * 30]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n", encoding="utf-8")
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode())


def test_each_process_with_its_state(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, state="S", command="python train.py")
    process(tmp_path, 11, 10, state="D", command="python \x1b[31m", name="pt_data_worker")
    process(tmp_path, 12, 10, state="Z", command="")
    shown = first_frame(Glance(Proc(tmp_path), 10), 60, 24)
    assert shown.removeprefix(ALTERNATE_SCREEN).split("\r\n") == [
        "train.py · pid 10 · 3 processes · looking …",
        "",
        "  process              pid state    rss  command",
        "  python                10 S       1.0M  train.py",
        "  pt_data_worker        11 D       1.0M  ·[31m",
        "  python                12 Z       1.0M  python",
    ]


def test_it_fits_a_small_terminal(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, state="S", command="python train.py " + "x" * 200)
    for pid in range(11, 40):
        process(tmp_path, pid, 10, state="S", command="python train.py")
    lines = first_frame(Glance(Proc(tmp_path), 10), 40, 8, ascii_only=True).removeprefix(ALTERNATE_SCREEN).split("\r\n")
    assert len(lines) == 7
    assert max(map(len, lines)) == 40
    assert lines[0].startswith("train.py xxx")
    assert all(line.isascii() for line in lines)


def test_it_comes_before_anything_is_imported_that_it_does_not_need() -> None:
    code = """
import sys
from mpmon.commands import show, watch

def picture(given, pid):
    print(*sorted({"asyncio", "msgspec", "psutil", "textual"} & sys.modules.keys()))
    sys.exit()

show.sink, show.first_frame = lambda given: "screen", picture
watch.run([sys.argv[1], "--up"])
"""
    words = [sys.executable, "-c", code, str(os.getpid())]
    shown = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (shown.stdout, shown.stderr) == ("\n", "")
