"""Agents in containers of Kubernetes, a `kubectl exec` each, with the user's own kubectl and its rights.

The process that `exec` started may outlive kubectl (kubernetes#89031), so the agent's lease ends it.  kubectl older than 1.30
speaks to no API server of today.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from typing import Annotated

import msgspec

from mpmon.errors import CannotTell, UsageError
from mpmon.nodes.transports import NAME, Carrier, Trouble, agent_words, asked, common_trouble, last_line, must_have

MOST_PODS = 64
"""Each has a kubectl here, which takes 63 MB."""

_NOT_UP = "Unable to connect to the server|connection refused"

_COMPLAINTS = (
    ("[Ff]orbidden", "refuses kubectl exec: you lack permission", "Ask for the RBAC permission to create pods/exec."),
    ("not found", "is gone", ""),
    ("container .* is not valid|container not found", "has no such container", "Name another one: -c CONTAINER"),
    (
        "unable to upgrade connection|bad handshake",
        "does not accept exec from this kubectl",
        "Use kubectl 1.30 or newer.",
    ),
    (_NOT_UP, "cannot be reached", "Check it: kubectl get pods"),
)


class _Meta(msgspec.Struct):
    name: str


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _Pods(msgspec.Struct):
    items: Annotated[list[_Pod], msgspec.Meta(max_length=10000)]


class Pods:
    """Those that a selector selects and that run."""

    at_once = 16

    def __init__(
        self, selector: str, *, namespace: str | None = None, container: str | None = None, program: str | None = None
    ) -> None:
        """`program` is the mpmon of the containers."""
        self._selector = selector
        self._namespace = [f"--namespace={namespace}"] if namespace else []
        self._container = [f"--container={container}"] if container else []
        self._program = program
        self.title = f"pods {selector}"

    def carriers(self) -> list[Carrier]:
        """One kubectl a pod.

        Raises:
            UsageError: there is no kubectl here, or too many pods.
            CannotTell: nothing is selected, or the cluster does not tell.
        """
        return self.added(())

    def added(self, known: Collection[str]) -> list[Carrier]:
        """One a pod that is not known.

        Raises:
            UsageError: as `carriers`.
            CannotTell: as `carriers`.
        """
        kubectl = must_have("kubectl", "Install it, and have it know your cluster.")
        agent = agent_words(self._program)
        return [
            Carrier((kubectl, "exec", "--stdin", *self._namespace, name, *self._container, "--", *agent), (name,))
            for name in self._names(kubectl) if name not in known
        ]  # fmt: skip

    def _names(self, kubectl: str) -> list[str]:
        told = asked([kubectl, "get", "pods", *self._namespace, f"--selector={self._selector}", "--output=json"])
        if told.returncode:
            raise CannotTell(f"kubectl cannot list the pods: {last_line(told.stderr)}.", "Try: kubectl get pods")
        try:
            pods = msgspec.json.decode(told.stdout, type=_Pods).items
        except msgspec.MsgspecError as problem:
            raise CannotTell(
                "what kubectl lists is no list of pods.", "Try: kubectl get pods --output=json"
            ) from problem
        running = [pod.metadata.name for pod in pods if pod.status.phase == "Running" and NAME.match(pod.metadata.name)]
        if not running:
            count = f"none of the {len(pods)} pods runs" if pods else "there is no pod"
            raise CannotTell(f"{count} with {self._selector}.", "Look with: kubectl get pods --show-labels")
        if len(running) > MOST_PODS:
            raise UsageError(f"{self._selector} selects {len(running)} pods, more than {MOST_PODS}.", "Select fewer.")
        return running

    def trouble(self, node: str, said: str) -> Trouble | None:
        """What kubectl complains of."""
        if known := common_trouble(node, said):
            return known
        found = (row for row in _COMPLAINTS if re.search(row[0], said))
        return next((Trouble(reason, remedy, awaited=pattern == _NOT_UP) for pattern, reason, remedy in found), None)

    def commands(self, node: str) -> tuple[str, ...]:
        """A shell in the container, and what the cluster knows of the pod."""
        enter = ["kubectl", "exec", "--stdin", "--tty", *self._namespace, node, *self._container, "--", "sh"]
        return (shlex.join(enter), shlex.join(["kubectl", "describe", "pod", *self._namespace, node]))
