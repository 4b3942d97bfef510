"""Starting a scene and holding it: mpmon's side of the supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mpmon import start
from mpmon.demo import Scene, scenes
from mpmon.errors import MpmonError, UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

LOG_TAIL_LINES = 12
SUPERVISOR_ENDS_WITHIN, WAIT_S = 200, 0.1
"""Waits and their length: the supervisor gives up on a process after 5 seconds, then only files are left to remove. A
suspended machine costs one wait, not all.
"""

Event = dict[str, Any]


class RunningScene:
    """A scene that hangs. Leaving its `with` block ends every process of it."""

    def __init__(self, scene: Scene, supervisor: subprocess.Popen[bytes], *, pid: int, torch_imported: bool) -> None:
        self.scene = scene
        self.pid = pid
        """The job's main process, the one to watch."""
        self.label = scene.label(torch_imported=torch_imported)
        self._supervisor = supervisor

    @property
    def expected_cause(self) -> str:
        """The id of the cause mpmon should find."""
        return self.scene.expected_cause

    def close(self) -> None:
        """End every process of the scene and remove its files; a second call does nothing."""
        stop_supervisor(self._supervisor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start_scene(name: str, ready_within_s: float) -> RunningScene:
    """Start the scene of this name and return when it hangs."""
    scene = find_scene(name)
    if scene.needs_torch and find_spec("torch") is None:
        raise UsageError(
            f"the scene {name} needs torch", "Install it with pip install 'torch==2.13.0', or try: mpmon demo loader"
        )
    supervisor = start_supervisor(scene)
    try:
        return wait_until_ready(scene, supervisor, ready_within_s)
    except BaseException:  # Ctrl-C while torch loads must end the scene as well
        stop_supervisor(supervisor)
        raise


def find_scene(name: str) -> Scene:
    """The scene of this name."""
    for scene in scenes():
        if scene.name == name:
            return scene
    known = ", ".join(scene.name for scene in scenes())
    raise UsageError(f"there is no demo scene {name!r}", f"choose one of: {known}")


def start_supervisor(scene: Scene) -> subprocess.Popen[bytes]:
    """Start the supervisor; its standard input is the pipe that tells it whether we live (close-on-exec in us, PEP 446)."""
    return subprocess.Popen(
        start.command("mpmon.demo.supervisor", scene.module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        start_new_session=True,
    )


def wait_until_ready(scene: Scene, supervisor: subprocess.Popen[bytes], within_s: float) -> RunningScene:
    """Follow the supervisor's reports until the hang is established."""
    pid = 0
    log: Path | None = None
    for event in reports(supervisor, time.monotonic() + within_s):
        if event["event"] == "started":
            pid, log = int(event["pid"]), Path(event["log"])
        elif event["event"] == "ready":
            return RunningScene(scene, supervisor, pid=pid, torch_imported=bool(event["with_torch"]))
        elif event["event"] == "ended":
            raise failure(f"the demo scene {scene.name} ended before it hung (status {event['status']})", log)
        else:
            raise failure(f"the demo's supervisor failed: {event['text']}", log)
    raise failure(f"the demo scene {scene.name} did not hang within {within_s:.0f} seconds", log)


def reports(supervisor: subprocess.Popen[bytes], deadline: float) -> Iterator[Event]:
    """The supervisor's reports until the deadline; if it ends, what it said last (its traceback's last line)."""
    assert supervisor.stdout is not None
    said = b""
    told = 0
    while (left := deadline - time.monotonic()) > 0 and select.select([supervisor.stdout], [], [], left)[0]:
        chunk = os.read(supervisor.stdout.fileno(), 65536)
        if not chunk:
            yield {"event": "failed", "text": last_line(said)}
            return
        said += chunk
        complete = [line for line in said.split(b"\n")[:-1] if line.startswith(b"{")]
        yield from (json.loads(line) for line in complete[told:])
        told = len(complete)


def last_line(said: bytes) -> str:
    """The last thing the supervisor wrote before it ended."""
    lines = said.decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line and not line.startswith("{")), "it ended")


def failure(message: str, log: Path | None) -> MpmonError:
    """The message, with what the scene last wrote."""
    tail = log_tail(log) if log else []
    if tail:
        message += "; its last lines:\n" + "\n".join(tail)
    return MpmonError(message, "run `mpmon doctor`; if Python and torch are in order there, try another scene")


def log_tail(log: Path) -> list[str]:
    """The last lines the scene wrote."""
    try:
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
    except OSError:
        return []


def stop_supervisor(supervisor: subprocess.Popen[bytes]) -> None:
    """Close the pipe that keeps the scene alive and wait until the supervisor has ended it."""
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    supervisor.stdin.close()
    for _ in range(SUPERVISOR_ENDS_WITHIN):
        with contextlib.suppress(subprocess.TimeoutExpired):
            supervisor.wait(WAIT_S)
            break
    else:
        supervisor.kill()
        supervisor.wait()
    supervisor.stdout.close()
