"""How agents are started on other machines: by programs that are there already, through whose streams they are spoken with.

A transport only knows words: which programs carry the agents, and what it means when one complains.  Starting them, speaking
and ending is the same for all: `mpmon.nodes.fleet`.  Nothing listens anywhere, and nothing is installed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from mpmon import start
from mpmon.errors import CannotTell, MpmonError, UsageError

ASK_S = 15.0
"""How long a program that is asked once may take."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@%-]*\Z")
"""Of a machine; none looks like an option."""


class Carrier(NamedTuple):
    """A program whose standard streams lead to the agents of some nodes."""

    words: tuple[str, ...]
    nodes: tuple[str, ...]
    labelled: bool = False
    """It puts the number of its node and a colon before each line."""
    environment: Mapping[str, str] | None = None


class Trouble(NamedTuple):
    """Why a node cannot be reached, in words that follow its name, and the remedy."""

    reason: str
    remedy: str = ""
    final: bool = False
    """It will not come back."""
    awaited: bool = False
    """It may be up later: nobody has refused anything."""
    jobless: bool = False
    """Its agent answers, and there is no part of the job."""


class Transport(Protocol):
    """A way to the nodes of one job."""

    title: str
    """What is watched, for the first line: `Slurm job 7`."""
    at_once: int
    """So many carriers may be on their way at the same time."""

    def carriers(self) -> list[Carrier]:
        """The programs to start.

        Raises:
            MpmonError: there is no such job, or nobody here knows of it.
        """
        ...

    def added(self, known: Collection[str]) -> list[Carrier]:
        """The programs for nodes that the job has got since, besides the known ones.

        Raises:
            MpmonError: nobody knows at the moment.
        """
        ...

    def trouble(self, node: str, said: str) -> Trouble | None:
        """What a carrier's complaint about a node means; `None` where the transport does not know."""
        ...

    def commands(self, node: str) -> tuple[str, ...]:
        """What a person may type to go to a node, or to have it left out; they are shown, and never run."""
        ...


def agent_words(program: str | None, *arguments: str) -> list[str]:
    """What runs the agent on a node.

    The very mpmon that runs here, where the nodes share its folder, else the `mpmon` on the PATH there; or the `program` that
    the user named.
    """
    given = ["agent", "--stdio", *arguments]
    if program is not None:
        return ["/bin/sh", "-c", f"exec {shlex.join([program, *given])}"]
    ours = start.command("mpmon", *given)
    try_ours = f"test -x {shlex.quote(sys.executable)} && test -f {shlex.quote(start.FILE)} && exec {shlex.join(ours)}"
    return ["/bin/sh", "-c", f"{try_ours}; exec {shlex.join(['mpmon', *given])}"]


_NOT_THERE = re.compile(r"exec: .*not found|exec: .*No such file or directory|exec: .*cannot execute")
"""As the shells say it."""


def common_trouble(node: str, said: str) -> Trouble | None:
    """What complaints mean that any transport may bring."""
    del node
    if _NOT_THERE.search(said):
        return Trouble("has no mpmon", "Install it there, or say where it is: --agent PATH")
    if "unrecognized arguments" in said or "invalid choice: 'agent'" in said or "is neither a pid nor" in said:
        return Trouble("has an mpmon that is too old", "Install the version there that runs here.")
    return None


def asked(words: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What a program of the transport says.

    Raises:
        CannotTell: it does not come to an end.
    """
    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=ASK_S, check=False,
            env=environment, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired as problem:
        raise CannotTell(f"{words[0]} does not answer within {ASK_S:.0f} s.", "Try again later.") from problem
    except OSError as problem:
        reason = (problem.strerror or "unknown reason").lower()
        raise MpmonError(f"{words[0]} cannot be started: {reason}.", "Check the file and its rights.") from problem


def must_have(program: str, remedy: str) -> str:
    """The path of a program.

    Raises:
        UsageError: there is none of that name.
    """
    if found := shutil.which(program):
        return os.path.abspath(found)
    raise UsageError(f"there is no program {program} here.", remedy)


def last_line(said: str) -> str:
    """The last line of a complaint that is not empty, without its full stop."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else ""
