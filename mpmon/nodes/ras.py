"""NCCL's RAS of a job on many nodes: asked through the agent of one of them, for it answers about the whole job."""

from __future__ import annotations

import threading

from mpmon.nodes import wire
from mpmon.nodes.fleet import Fleet
from mpmon.nodes.members import NodeState, State
from mpmon.probes.nccl_ras import NoAnswer
from mpmon.probes.nccl_ras.dialogue import WITHIN_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.nccl_ras import Address, Communicator

RAS_S = WITHIN_S + 5.0
"""Time limit for the agent that queries NCCL's RAS: its own deadline, and the transfer."""

RAS_NODES = 3
"""Most nodes on which RAS is looked for, one after the other, as long as no server listens."""


class RasOfNodes:
    """Asks RAS; called in a thread that may wait."""

    def __init__(self, fleet: Fleet, stopped: threading.Event) -> None:
        self._fleet = fleet
        self._stopped = stopped
        self._number = 0

    def __call__(self, address: Address) -> tuple[Communicator, ...]:
        """RAS's answer to the agent of a node with ranks, about the whole job.

        Raises:
            NoAnswer: there is none, or not in time.
        """
        nodes = self._fleet.nodes()
        ready = [place for place, node in enumerate(nodes) if node.state is State.HERE]
        with_ranks = [place for place in ready if nodes[place].ranks]
        why = "is not asked, as no node answers"
        for place in (with_ranks or ready)[:RAS_NODES]:
            said = self._ras_of(place, address)
            if said and not said.problem:
                return said.communicators
            why = f"on {nodes[place].name} {said.problem if said else f'has not answered within {RAS_S:.0f} s'}"
            if said is None or said.reached:
                break
        raise NoAnswer(why)

    def _ras_of(self, place: int, address: Address) -> wire.RasAnswer | None:
        self._number += 1
        number = self._number
        self._fleet.ask_ras(place, number, address)

        def is_over(nodes: list[NodeState]) -> bool:
            said, is_here = nodes[place].ras, nodes[place].state in (State.HERE, State.LATE)
            return self._stopped.is_set() or not is_here or (said is not None and said.answers == number)

        self._fleet.wait(is_over, RAS_S)
        said = self._fleet.nodes()[place].ras
        return said if said and said.answers == number else None
