"""What tests of nodes start: mpmon with stand-ins on its PATH, agents, a small job; all of it is ended."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from mpmon.nodes.fleet import Fleet
from mpmon.nodes.members import NodeState
from mpmon.nodes.wire import FromAgent, Lines, Unpacker, Watch, frames
from tests.patience import patience, ran, status_of

HOUSE = Path(__file__).parents[2]


def environment(folder: Path, nodes: str = "") -> dict[str, str]:
    """With programs in place of the real ones."""
    for name in ("ssh", "srun", "squeue", "scontrol", "kubectl"):
        program(folder / name, f'cd {HOUSE} && exec {sys.executable} -m tests.nodes.standin {name} "$@"')
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "STANDIN_NODES": nodes}


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def agent_for(folder: Path, pid: int) -> Path:
    """A mpmon that as an agent looks at one job, whatever else runs here."""
    return program(
        folder / "mpmon-of-node", f"cd / && exec {shlex.join([sys.executable, '-m', 'mpmon'])} agent --stdio {pid}"
    )


def mpmon(folder: Path, *arguments: str, nodes: str = "") -> subprocess.CompletedProcess[str]:
    """To its end."""
    command = [sys.executable, "-m", "mpmon", *arguments]
    return ran(command, env=environment(folder, nodes), stdin=subprocess.DEVNULL, cwd="/")


def until(fleet: Fleet, enough: Callable[[list[NodeState]], bool]) -> list[NodeState]:
    """The nodes when that is so, however long a busy machine takes."""
    assert any(fleet.wait(enough, pause) for pause in patience()), fleet.nodes()
    return fleet.nodes()


def agents() -> dict[int, psutil.Process]:
    """By the process each looks at."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.Process().children():
        # Another test may have left one that has ended.
        with contextlib.suppress(psutil.NoSuchProcess):
            if "--stdio" in (words := process.cmdline()):
                found[int(words[-2])] = process
    return found


class AgentProcess:
    """An agent that is spoken with by hand."""

    def __init__(self, *arguments: str, below: Sequence[str] = ()) -> None:
        """Through a program that starts it, where one is named."""
        self.process = subprocess.Popen(
            [*below, sys.executable, "-m", "mpmon", "agent", "--stdio", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd="/",
        )  # fmt: skip
        self._lines, self._unpacker = Lines(), Unpacker[FromAgent](FromAgent)
        self._heard: list[FromAgent] = []
        self._said = 0

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()

    def say(self, *messages) -> None:
        for message in messages:
            self._said += 1
            assert self.process.stdin
            self.process.stdin.write(b"".join(frames(self._said, message)))

    def hear(self, kind):
        """The next message of this kind."""
        while True:
            while self._heard:
                if isinstance(found := self._heard.pop(0), kind):
                    return found
            assert self.process.stdout
            chunk = os.read(self.process.stdout.fileno(), 65536)
            assert chunk, f"the agent ended before it said {kind.__name__}"
            self._heard += self._unpacker.feed(self._lines.feed(chunk))

    def end(self) -> int:
        """Its status when it has ended."""
        return status_of(self.process)


LOOK = Watch(interval=0.2, stacks="never")
