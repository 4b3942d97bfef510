"""What is said of a stuck set whose cause no rule knows: its symptom, and the cause nearest to it."""

from __future__ import annotations

from mpmon.diagnosis.advice.circles import LAST_MESSAGE
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.humanize import several, verb
from mpmon.diagnosis.missing_data import hides_call
from mpmon.diagnosis.responsibility import responsible
from mpmon.diagnosis.responsibility.servers import hub
from mpmon.diagnosis.stacks.waits import EXCHANGES, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet, doing


def symptom(stuck: StuckSet) -> tuple[str, Match]:
    """The symptom, if no rule knows the cause."""
    asked = hub(stuck) if stuck.nobody is None else []
    if asked and any(item.listens for item in stuck.job.waits_on(asked[0])):
        # New connections are nothing that those who wait for its answers could give it.
        return _asked_by_all(stuck, asked[0])
    if found := _exchange(stuck):
        return found
    if asked:
        return _asked_by_all(stuck, asked[0])
    alive = ((row.pid, row.tid) for row in responsible(stuck) if row.tid and not row.dead)
    first = next(alive, stuck.root or stuck.goal)
    all_blocked = "everyone who could unblock it is blocked too"
    rest = f"nobody can end that: {stuck.nobody.why}" if stuck.nobody else all_blocked
    words = f"{stuck.named(first)} is {doing(stuck.job, first)}, and {rest}"
    return _nearest_cause(stuck), Match(summary=words, evidence=stuck.edge_evidence(), certainty=Certainty.POSSIBLE)


def hidden(stuck: StuckSet) -> tuple[str, Match] | None:
    """All waits end in a process that may not be read: all that is known is that it stands still."""
    if stuck.ending is not Ending.LEAF or stuck.root is None or stuck.wait_state().kind is not Wait.UNKNOWN:
        return None
    if not hides_call(stuck.job, stuck.root):
        return None
    pid = stuck.root[0]
    return "main-stuck" if stuck.is_goal else "worker-stuck", Match(
        summary=f"{stuck.job.full_name(pid)} has not run for {stuck.for_how_long()}, and its current call "
        "cannot be read (no permission)",
        evidence=(f"the counters of /proc/{pid}/schedstat do not change", *stuck.edge_evidence()),
        advice=(f"Give mpmon permission to read it: `mpmon doctor {pid}` tells how.",),
        certainty=Certainty.POSSIBLE,
    )


MOST_STEPS = 3
"""At most this many of the waits are told in the sentence."""


def _exchange(stuck: StuckSet) -> tuple[str, Match] | None:
    """Processes that wait for each other's messages, each for any of several others, and no rule knows more."""
    among = [key for key in stuck.closed.core if stuck.wait_state(key).kind in EXCHANGES | {Wait.POLL}]
    pids = list(dict.fromkeys(key[0] for key in among))
    targets = (target for key in among for target in stuck.targets(key))
    closed = all(isinstance(target, tuple) and target[0] in pids for target in targets)
    if stuck.ending not in (Ending.OPEN, Ending.CYCLE) or len(pids) < 2 or stuck.root not in among or not closed:
        return None
    steps = [f"{stuck.job.name(key[0])} waits{stuck.at(key)} for {stuck.waits_for(key)}" for key in among]
    words = f"{stuck.job.names(pids)} wait for each other: {'; '.join(steps[:MOST_STEPS])}"
    return "lock-cycle", Match(
        summary=words,
        evidence=stuck.edge_evidence(),
        advice=LAST_MESSAGE,
        certainty=Certainty.POSSIBLE,
        tells_of=frozenset(among),
    )


def _asked_by_all(stuck: StuckSet, asked: ThreadKey) -> tuple[str, Match]:
    """All others wait for one that waits for any of them, or for whoever comes."""
    job, core = stuck.job, [key for key in stuck.closed.core if key != asked]
    beside = [key for key in core if key[0] != asked[0]]
    names = dict.fromkeys(job.name(pid) for pid, _ in beside) or dict.fromkeys(map(stuck.named, core))
    name = job.name(asked[0]) if beside else stuck.named(asked)
    waits = f"{several(list(names))} {verb(len(names), 'wait')} for {name}"
    return "main-stuck" if asked == stuck.goal or job.role(asked[0]).kind == "main" else "worker-stuck", Match(
        summary=f"{name} waits{stuck.at(asked)} for {stuck.waits_for(asked)}, while {waits}: no other "
        f"{'process' if beside else 'thread'} could unblock them",
        evidence=stuck.edge_evidence(),
        certainty=Certainty.POSSIBLE,
    )


def _nearest_cause(stuck: StuckSet) -> str:
    """The cause named for a symptom that no rule explains."""
    kinds = {Wait.QUEUE_GET: "queue-empty", Wait.PIPE_READ: "queue-empty", Wait.QUEUE_PUT: "queue-full",
             Wait.PIPE_WRITE: "pipe-full", Wait.LOCK: "lock-held", Wait.FUTEX: "lock-held", Wait.THREAD_LOCK: "lock-held",
             Wait.PROCESS_EVENT: "item-lost", Wait.CONDITION: "thread-deadlock",
             Wait.THREAD_QUEUE: "thread-deadlock"}  # fmt: skip
    of_main = stuck.is_goal or (stuck.root is not None and stuck.job.role(stuck.root[0]).kind == "main")
    return kinds.get(stuck.wait_state().kind, "main-stuck" if of_main else "worker-stuck")
