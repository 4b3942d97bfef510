"""Agents through ssh(1), a client a node, with the user's own settings: jumps, keys, Kerberos just work.

Names of nodes are those of ClusterShell, where that is installed: `n[1-64,70]`, `@group`, and all its sources of groups.  It is
used for names only; its window of running commands would keep long-lived agents beyond it from ever starting.  Without it
plain names, with commas between them, do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from itertools import islice

from mpmon.errors import UsageError
from mpmon.nodes.transports import NAME, Carrier, Trouble, agent_words, common_trouble, must_have

MOST_NODES = 1000
"""Each has an ssh client here: 8 MB and 0.13 s of CPU time."""

OPTIONS = (
    "-T", "-oBatchMode=yes", "-oConnectTimeout=5", "-oServerAliveInterval=5", "-oServerAliveCountMax=2",
    "-oClearAllForwardings=yes", "-oForwardX11=no", "-oEscapeChar=none", "-oLogLevel=ERROR",
)  # fmt: skip
"""Nobody is asked for a password, and a connection that is cut is noticed after 10 to 15 s."""

_SET = re.compile(r"[][]|(?:^|[,\s])@")
"""What only ClusterShell can read."""

_COMPLAINTS = (
    ("Host key verification failed|host key is known", "has a host key that is not known here", "Check it once: ssh {node}"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "has a different host key than before", "Check why: ssh {node}"),
    (r"Permission denied|Too many authentication failures", "does not let you in", "Set up login without a password: ssh {node}"),
    ("Could not resolve hostname", "has a name that is not known here", "Check its spelling."),
    ("Connection refused", "runs no ssh server", "Check it, or leave it out of --nodes."),
    ("timed out|No route to host|Network is unreachable", "cannot be reached", "Check it, or leave it out of --nodes."),
    ("pam_slurm_adopt|no active jobs", "allows no login without a Slurm job", "Use: mpmon --slurm JOB"),
)  # fmt: skip


_NOT_UP = re.compile("Connection refused|timed out|No route to host|Network is unreachable")


class Ssh:
    """Nodes by name."""

    at_once = 64

    def __init__(self, names: str, program: str | None = None) -> None:
        """`program` is the mpmon of the nodes.

        Raises:
            UsageError: these are no names, or too many.
        """
        self._nodes = names_of(names)
        self._program = program
        self.title = f"nodes {names}"

    def carriers(self) -> list[Carrier]:
        """One client a node.

        Raises:
            UsageError: there is no ssh here.
        """
        ssh = must_have("ssh", "Install the OpenSSH client.")
        # What the login shell there runs, whichever shell that is.
        command = f"exec {shlex.join(agent_words(self._program))}"
        return [Carrier((ssh, *OPTIONS, "--", node, command), (node,)) for node in self._nodes]

    def added(self, known: Collection[str]) -> list[Carrier]:
        """None: whoever named the nodes has named them all."""
        del known
        return []

    def trouble(self, node: str, said: str) -> Trouble | None:
        """What ssh complains of."""
        for pattern, reason, remedy in _COMPLAINTS:
            if re.search(pattern, said):
                return Trouble(reason, remedy.format(node=node), awaited=bool(_NOT_UP.search(pattern)))
        return common_trouble(node, said)

    def commands(self, node: str) -> tuple[str, ...]:
        """To log in there."""
        return (f"ssh {node}",)


def names_of(spec: str) -> tuple[str, ...]:
    """The names of nodes, each once.

    Raises:
        UsageError: these are no names, or too many.
    """
    try:
        found = _expanded(spec)
    except ImportError as problem:
        if _SET.search(spec):
            raise UsageError(
                "sets of nodes in brackets and groups need the package ClusterShell.",
                "Install it: pip install 'mpmon[ssh]', or name each node: n1,n2",
            ) from problem
        found = list(dict.fromkeys(name for name in re.split(r"[,\s]+", spec) if name))
    if not found:
        raise UsageError("--nodes names no node.", "For example: --nodes 'n[1-4]'")
    if len(found) > MOST_NODES:
        raise UsageError(f"--nodes names more than {MOST_NODES} nodes.", "Under Slurm, use --slurm JOB.")
    for name in found:
        if not NAME.match(name):
            raise UsageError(f"{name} is not the name of a machine.", "For example: --nodes 'n[1-4]'")
    return tuple(found)


def _expanded(spec: str) -> list[str]:
    """
    Raises:
        ImportError: ClusterShell is not installed.
        UsageError: it does not take this.
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        nodes = NodeSet(spec)
        return list(islice(nodes, MOST_NODES + 1))
    except NodeSetException as problem:
        raise UsageError(f"--nodes {spec} cannot be read: {problem}.", "For example: --nodes 'n[1-4]'") from problem
