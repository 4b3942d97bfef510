"""Fewer ranks or nodes arrived than were announced, or they look for each other in the wrong place.

What it looks like: ranks are in `init_process_group` or wait for a key of the store; or torchrun waits for the other nodes.
Why: a rank was never started or died before, WORLD_SIZE is wrong, or MASTER_ADDR, MASTER_PORT, `init_method` or the names of
keys differ: for example a prefix with an attempt or epoch number that one rank counts differently. Or torchrun was not started
on every node, or with another endpoint or `--rdzv-id`.
What to do: count the ranks and nodes; compare MASTER_ADDR, MASTER_PORT and WORLD_SIZE in their environments, `init_method`,
the options of torchrun, and everything that goes into the names of keys and prefixes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.stuck.meeting import Meeting, Missed, meeting
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "rendezvous"
NEEDS = frozenset({"stacks", "processes"})


def match(stuck: StuckSet) -> Match | None:
    """The chain ends in ranks that wait for others to arrive, or for a key of the store."""
    found = meeting(stuck)
    if found and found.how is Missed.OTHERS and stuck.outside and stuck.outside.of_job:
        # Whether they were started can only be seen on the machines they were to run on.
        return None
    return _TELLS[found.how](stuck, found) if found else None


_OF_RANKS = ("Start the missing rank, or correct WORLD_SIZE.", "Compare MASTER_ADDR and MASTER_PORT of all ranks.")
_OF_NODES = (
    "Start the launcher on every node with the same `--rdzv-id` and the same endpoint, or lower `--nnodes`.",
    "Check that the other nodes can reach that endpoint.",
)


def _others(stuck: StuckSet, found: Meeting) -> Match:
    waiting = found.waiting
    why = stuck.nobody.why if stuck.nobody else f"no sign of {stuck.outside.who if stuck.outside else 'the others'}"
    launched = stuck.job.role(waiting[0][0]).kind == "launcher"
    names = stuck.job.they(waiting, "wait")
    return Match(
        summary=f"{names} for the launchers of the other nodes, and none has appeared"
        if launched
        else f"{names} in {stuck.wait_state(waiting[0]).words}: {why}",
        evidence=tuple(_told(stuck, key[0]) for key in waiting),
        advice=_OF_NODES if launched else _OF_RANKS,
        certainty=Certainty.LIKELY,
    )


def _meeting_options(cmdline: Sequence[str]) -> Iterator[str]:
    """The launcher's options that say who meets where, each with its value: `--nnodes=2`, `--node-rank 0`."""
    for option, value in zip_longest(cmdline, cmdline[1:], fillvalue=""):
        if option.startswith(("--nnodes", "--node", "--rdzv", "--master")):
            yield option if "=" in option else f"{option} {value}"


def _other_address(stuck: StuckSet, found: Meeting) -> Match:
    right = next(address for key, address in found.addresses.items() if key not in found.odd)
    return Match(
        summary=f"{stuck.job.they(found.odd, 'look')} for the others at "
        f"{found.addresses[found.odd[0]]}, the other ranks at {right}",
        evidence=tuple(
            f"{stuck.job.full_name(pid)} meets the others at {address}" for (pid, _), address in found.addresses.items()
        ),
        advice=("Give all ranks the same init_method, or the same MASTER_ADDR and MASTER_PORT.",),
        certainty=Certainty.LIKELY,
    )


def _other_value(stuck: StuckSet, found: Meeting) -> Match:
    first, names = found.waiting[0], stuck.job.names(found.odd)
    return Match(
        summary=f"{stuck.job.names(found.waiting)} wait for each other in {stuck.wait_state(first).words}{stuck.at(first)}, but "
        f"{names} with a different `{found.variable}` than most",
        evidence=(f"the local variable `{found.variable}` differs on {names}", *stuck.edge_evidence()),
        advice=(f"Give all ranks the same `{found.variable}`, as part of a prefix or key of the store.",),
        certainty=Certainty.LIKELY,
    )


def _key_never_set(stuck: StuckSet, found: Meeting) -> Match:
    """Every thread that could set a key of the store waits, for the key or for those that wait for it."""
    others = [key for key in found.odd if key not in found.waiting]
    ends = [f"{stuck.job.name(key[0])} waits{stuck.at(key)} for {stuck.wait_state(key).words}" for key in others]
    return Match(
        summary=f"{stuck.job.they(found.waiting, 'wait')} for a key of the store{stuck.at(found.waiting[0])} that nobody sets"
        + (f": {several(ends)}" if ends else ""),
        evidence=stuck.edge_evidence(),
        advice=("Set the key before waiting for its readers; compare the names of the keys that are set and read.",),
        certainty=Certainty.LIKELY,
    )


def _told(stuck: StuckSet, pid: int) -> str:
    """What a rank's environment, or its launcher's command, says of who meets where."""
    process = stuck.job.processes[pid]
    kept, names = process.environment or {}, ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    words = [f"{name}={kept[name]}" for name in names if name in kept] or list(_meeting_options(process.cmdline or ()))
    if not words and stuck.job.role(pid).kind == "launcher":
        # It needs none of these variables, and was started without such options.
        return ""
    return f"{stuck.job.full_name(pid)}: {' '.join(words) or 'no RANK or MASTER_ADDR in its environment'}"


_TELLS: dict[Missed, Callable[[StuckSet, Meeting], Match]] = {
    Missed.ADDRESS: _other_address,
    Missed.VALUE: _other_value,
    Missed.KEY: _key_never_set,
    Missed.OTHERS: _others,
}
