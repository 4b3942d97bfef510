"""From a history to a diagnosis: the goals, their closed sets, the rules, the verdict.

The job hangs when a goal (the main program's main thread, or what it watches over) has been in a closed set for a
while. It is slow when the goal has waited for a while for a thread that still makes progress. Otherwise it is healthy,
unless too little could be read to say so.

A root process that is not Python is no goal: a shell or init that sleeps or waits has nothing to do, and nothing else is
known about it. The Python programs below it are goals.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from mpmon.diagnosis.advice import further_advice
from mpmon.diagnosis.basis import agreement
from mpmon.diagnosis.deadlocks import deadlocks
from mpmon.diagnosis.edges import node
from mpmon.diagnosis.edges.dead import death, did
from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, ProcessView, Suspect, Unchecked, Verdict
from mpmon.diagnosis.graph import Closed, Exited, Graph, NoReleaser, Status
from mpmon.diagnosis.history import History, ThreadKey
from mpmon.diagnosis.hosts import told
from mpmon.diagnosis.humanize import age, several
from mpmon.diagnosis.job_state import JobState
from mpmon.diagnosis.loops import deadlocked
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.missing_data import hides_call, unchecked
from mpmon.diagnosis.pace import Progress, progress
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.proof import judged
from mpmon.diagnosis.remarks import remarks
from mpmon.diagnosis.requests import is_server, lost_requests, lost_work, own_requests, reads_input, serves, stands_by
from mpmon.diagnosis.responsibility import hub, responsible
from mpmon.diagnosis.roles import HELPERS, WORKERS, is_python, topmost_python
from mpmon.diagnosis.rules import RULES
from mpmon.diagnosis.stuck_set import Ending, Match, StuckSet, doing, stands_since
from mpmon.diagnosis.thresholds import (
    COMPUTES_SHARE,
    MIN_ROUNDS,
    MIN_WATCH_S,
    NEXT_ROUND_S,
    PATIENCE_S,
    POLLS_IN_VAIN,
    RUNNING_PATIENCE_S,
    SETTLED_S,
    STILL_S,
)
from mpmon.diagnosis.views import process_views
from mpmon.diagnosis.waits import SIGNAL_CALLS, Wait
from mpmon.model import NOT_PYTHON
from mpmon.spans import count


def diagnose(history: History, memory: Memo | None = None) -> Diagnosis:
    """The diagnosis of the latest snapshot; `memory` of earlier rounds saves work and does not change the result."""
    snapshot = history.snapshot
    if snapshot is None:
        return Diagnosis(verdict=Verdict.UNKNOWN, because="nothing was read yet")
    memory = memory or Memo()
    memory.turn()
    job = JobState(history, snapshot, memory)
    found = msgspec.structs.replace(
        _judged(job), remarks=remarks(job), queue_parts=history.queue_parts, elsewhere=count(job.world.elsewhere),
    )  # fmt: skip
    return told(found, snapshot)


def _judged(job: JobState) -> Diagnosis:
    """The verdict and its findings."""
    graph = Graph(lambda key: node(job, key))
    blind = _blind(job)
    if blind and not _shows_a_stop(job):
        return _unknown(job, graph, blind)
    goals = _goals(job, graph)
    asked = [goal for goal in goals if graph.node(goal).status is not Status.IDLE]
    asked += [key for goal in asked for key in _looked_after(job, graph, goal) if key not in goals]
    closed_sets = [closed for goal in asked if (closed := graph.closed(goal)) and not _is_idle(job, graph, closed)]
    # One who is stuck by itself, and for whom another goal waits, is the end of that one's chain.
    alone = {closed.goal for closed in closed_sets if closed.members == closed.root_blockers == (closed.goal,)}
    awaited = {key for closed in closed_sets for key in closed.members if key != closed.goal}
    closed_sets = [closed for closed in closed_sets if closed.goal not in alone & awaited]
    closed_sets += lost_requests(job, graph, goals)
    own = own_requests(job, graph, goals)
    # Whoever waits together with these, waits because of them.
    closed_sets = [closed for closed in closed_sets if not any(one.goal in closed.members for one in own)] + own
    closed_sets += lost_work(job, graph, goals)
    closed_sets += deadlocks(job, graph)
    stuck_sets = [StuckSet(job, graph, closed) for closed in closed_sets]
    ripe = [stuck for stuck in stuck_sets if _is_ripe(stuck)]
    ranked = _ranked(ripe)
    if ranked:
        return _hung(job, graph, ripe, ranked)
    return _unknown(job, graph, blind) if blind else _not_hung(job, graph, goals, stuck_sets)


def _looked_after(job: JobState, graph: Graph, goal: ThreadKey) -> list[ThreadKey]:
    """The children of a goal that polls for an unknown condition: it may be polling for their results. An event loop
    woken by its timers counts too.
    """
    status, loops = graph.node(goal).status, job.wait_state(goal).kind is Wait.EVENT_LOOP
    samples = status is Status.LEAF or (status is Status.LIVE and loops)
    if not samples or job.motion(goal) is not Motion.POLLING:
        return []
    children = [key for pid in job.helpmates(goal[0]) if graph.node(key := (pid, pid)).status is Status.WAITS]
    return [key for key in children if not serves(job, key)]


def _is_idle(job: JobState, graph: Graph, closed: Closed) -> bool:
    """The goal legitimately waits for an external event that may never come."""
    rests = _only_sleeps(job, graph, closed) or _only_watches_flag(job, closed)
    return rests or _only_serves(job, graph, closed) or _only_prompts(job, graph, closed)


def _only_watches_flag(job: JobState, closed: Closed) -> bool:
    """All members wait in the same pipe, each with a time limit: none of them sends the others anything through it, so it is
    a flag that would end them, and they look for work between.
    """
    waits = [(job.wait_state(key).kind, pause_s(job.blocked.get(key))) for key in closed.members]
    if len(waits) < 2 or any(kind is not Wait.POLL or pause is None for kind, pause in waits):
        return False
    pipes = {item.id for key in closed.members for item in job.waits_on(key)}
    return len(pipes) == 1 and all(isinstance(root, tuple) for root in closed.root_blockers)


def _only_sleeps(job: JobState, graph: Graph, closed: Closed) -> bool:
    """The goal sleeps until a signal or a deadline it chose itself, and nothing else in the job is stuck."""
    blocked = job.blocked.get(closed.goal)
    chosen = blocked is not None and (blocked.wakes_at is not None or blocked.syscall in SIGNAL_CALLS)
    asleep = chosen and job.wait_state(closed.goal).kind is Wait.SLEEP
    if not asleep or closed.members != (closed.goal,) or job.motion(closed.goal) is not Motion.NOT_SCHEDULED:
        return False
    return all(graph.closed(key) is None for key in _at_work_beside(job, closed))


def _at_work_beside(job: JobState, closed: Closed) -> list[ThreadKey]:
    """Main threads of other Python processes that are not idle and do not wait for other processes to end."""
    others = [(pid, pid) for pid in job.processes if job.is_alive(pid) and job.role(pid).kind not in HELPERS]
    # A non-Python program that nobody waits for may sleep indefinitely.
    others = [key for key in others if key in job.stacks or is_python(job.processes[key[0]])]
    strangers = [key for key in others if key not in closed.members and not is_server(job, key)]
    return [key for key in strangers if job.wait_state(key).kind not in _ENDS and not job.wait_state(key).idle]


def _only_prompts(job: JobState, graph: Graph, closed: Closed) -> bool:
    """A console beside the work: it waits only for a person's input, and other processes make progress."""
    if job.wait_state(closed.goal).kind is not Wait.DEBUGGER or closed.members != (closed.goal,):
        return False
    others = [(pid, pid) for pid in job.processes if pid != closed.goal[0] and job.is_alive(pid)]
    workers = [key for key in others if job.role(key[0]).kind not in HELPERS]
    return any(graph.node(key).status is Status.LIVE for key in workers)


def _only_serves(job: JobState, graph: Graph, closed: Closed) -> bool:
    """Servers without requests, standby threads, and processes that wait for these to end or for a signal, while nothing
    else in the job is stuck: legitimately idle.
    """
    rest = [key for key in closed.members if job.wait_state(key).kind not in _STAYS]
    if not any(serves(job, key) for key in rest) or not all(stands_by(job, graph, key) for key in rest):
        return False
    if any(job.was_asked_to_end(key) for key in closed.members) or _asks_amid_work(job, closed):
        return False
    if any(isinstance(root, (Exited, NoReleaser)) for root in closed.root_blockers):
        return False
    if any(deadlocked(job.stuck_tasks(key)) for key in closed.members):
        return False
    return all(graph.closed(key) is None for key in _at_work_beside(job, closed))


def _asks_amid_work(job: JobState, closed: Closed) -> bool:
    """A program that the goal runs reads the job's input in the middle of work: the goal has workers, which get nothing."""
    reads = any(key != closed.goal and reads_input(job, key) for key in closed.members)
    return reads and any(job.role(pid).kind in WORKERS for pid in job.clients.get(closed.goal[0], ()))


def _unknown(job: JobState, graph: Graph, why: str) -> Diagnosis:
    """The diagnosis when only world-readable facts are known: process states, ages, the process tree, exited processes."""
    patient = _shows_a_stop(job) and job.history.watched_s < PATIENCE_S
    return Diagnosis(
        verdict=Verdict.UNKNOWN, because=why + _dead_words(job), settled=bool(job.snapshot.unknowns) and not patient,
        unchecked=_unchecked(job), processes=process_views(job, graph, ()),
    )  # fmt: skip


def _ranked(stuck_sets: list[StuckSet]) -> tuple[Finding, ...]:
    """The most certain first. Of findings with common suspects, the most informative one is kept, with the waiters of all.

    A chain that begins with work (a collective, a batch) is more informative than one that begins with a join.
    """
    # Those who wait for the same suspects yield one finding, whatever cause it has from their point of view.
    same: dict[object, list[tuple[int, bool, int, Finding]]] = {}
    for stuck in stuck_sets:
        row = _finding(stuck)
        works = stuck.job.wait_state(stuck.goal).kind not in _ENDS
        same.setdefault(frozenset(row.suspects) or row.cause, []).append(
            (-row.certainty.rank, works, len(row.chain), row)
        )
    best = [_joined(rows) for rows in same.values()]
    whole = [row for row in best if not any(_says_all_of(other, row) for other in best)]
    told = [_with_waiters(row, [other for other in best if _says_all_of(row, other)]) for row in whole]
    return tuple(sorted(told, key=lambda row: row.certainty.rank))


def _joined(rows: list[tuple[int, bool, int, Finding]]) -> Finding:
    *_, shown = max(rows, key=lambda row: row[:3])
    return _with_waiters(shown, [row for *_, row in rows])


def _says_all_of(one: Finding, other: Finding) -> bool:
    """Finding `one` subsumes `other`: the same cause, at least as certain, for a proper superset of the suspects, as when
    ranks that wait together are seen from each rank.
    """
    if one.cause != other.cause or one.certainty.rank > other.certainty.rank:
        return False
    return {row.tid or row.pid for row in one.suspects} > {row.tid or row.pid for row in other.suspects}


def _with_waiters(shown: Finding, others: list[Finding]) -> Finding:
    """Finding `shown`, with the waiters of `others` added unless they are its suspects."""
    suspects = {row.pid for row in shown.suspects}
    waiters = {waiter.pid: waiter for row in (*others, shown) for waiter in row.waiters if waiter.pid not in suspects}
    return msgspec.structs.replace(shown, waiters=tuple(waiters[pid] for pid in sorted(waiters)))


def _hung(job: JobState, graph: Graph, stuck_sets: list[StuckSet], findings: tuple[Finding, ...]) -> Diagnosis:
    settled = all(stuck.stood_s >= SETTLED_S and stuck.is_frozen for stuck in stuck_sets)
    return Diagnosis(
        verdict=Verdict.HUNG, since=findings[0].since, settled=settled, because=findings[0].summary,
        findings=findings, unchecked=_unchecked(job, findings), processes=process_views(job, graph, findings),
    )  # fmt: skip


def _not_hung(job: JobState, graph: Graph, goals: list[ThreadKey], stuck_sets: list[StuckSet]) -> Diagnosis:
    verdict, since, because, hidden = Verdict.HEALTHY, None, _healthy_words(job, goals), ()
    gets_on = Progress()
    slow = next((goal for goal in goals if _is_slow(job, graph, goal)), None)
    waits = any(graph.node(goal).status is Status.WAITS for goal in goals)
    if job.history.watched_s < MIN_WATCH_S:
        verdict = Verdict.UNKNOWN
        because = f"observed for only {job.history.watched_s:.1f} s, too short to tell"
    elif waits and job.history.rounds < MIN_ROUNDS:
        verdict = Verdict.UNKNOWN
        because = f"observed for {job.history.watched_s:.1f} s, but only {job.history.rounds} times: too seldom to tell"
    elif hidden := tuple(dict.fromkeys(key for goal in goals for key in graph.rests_on(goal))):
        verdict, because = Verdict.UNKNOWN, _hidden_words(job, hidden[0][0])
    elif still := _has_only_stood(job, graph, goals, stuck_sets):
        verdict, (since, what) = Verdict.UNKNOWN, still
        because = f"{what}, and has stood still for {age(job.now - since)}: only a longer observation can tell whether it hangs"
    elif stuck_sets:
        stuck = stuck_sets[0]
        since, because = stuck.since(), f"{stuck.role()} is {stuck.doing()}, so far only for {stuck.for_how_long()}"
    elif slow:
        verdict, since = Verdict.SLOW, stands_since(job, slow)
        because = _slow_words(job, graph, slow)
    else:
        gets_on = progress(job)
        because = f"{gets_on.words}{_above(job)}" if gets_on.words else because
    views = _with_pace(process_views(job, graph, ()), gets_on)
    return Diagnosis(
        verdict=verdict, since=since, because=because, unchecked=_unchecked(job), processes=views, hidden=hidden,
        paces=gets_on.paces, bottleneck=gets_on.bottleneck, pause=gets_on.pause,
    )  # fmt: skip


def _with_pace(views: tuple[ProcessView, ...], gets_on: Progress) -> tuple[ProcessView, ...]:
    """Marks a rank with a known batch or collective rate as working, even if every sample finds it in the same wait."""
    counted = {row.pid for row in gets_on.paces if row.batches_per_s or row.collectives_per_s}
    return tuple(
        msgspec.structs.replace(view, mood="working", still_since=None)
        if view.pid in counted and view.mood == "waiting" else view
        for view in views
    )  # fmt: skip


def _hidden_words(job: JobState, pid: int) -> str:
    """Why it is unknown whether a goal will make progress: the processes it waits for stand still, and their frames
    cannot be read.
    """
    reasons = [f": {row.reason}" for row in job.snapshot.unknowns if row.table == "stacks" and row.pid == pid]
    return f"{job.role(pid).name} is blocked in a lock, and its frames could not be read{''.join(reasons[:1])}"


def _has_only_stood(
    job: JobState, graph: Graph, goals: list[ThreadKey], stuck_sets: list[StuckSet]
) -> tuple[float, str] | None:
    """For a goal that was never seen to progress, but not for long enough to call it hung: since when it has stood still,
    and what it does.
    """
    for stuck in stuck_sets:
        if _from_the_beginning(job, stuck.stood_s) and not _computes(job, graph, stuck.goal):
            return job.now - stuck.stood_s, f"{stuck.role()} is {stuck.doing()}"
    for goal in goals:
        rested_s = (
            0.0 if graph.node(goal).status is Status.IDLE or is_server(job, goal) else _rested_s(job, graph, goal)
        )
        if _from_the_beginning(job, rested_s) and rested_s < PATIENCE_S and not _computes(job, graph, goal):
            return job.now - rested_s, f"{job.role(goal[0]).name} is {doing(job, goal)}"
    return None


def _rested_s(job: JobState, graph: Graph, goal: ThreadKey) -> float:
    """For how long neither a thread nor any thread it waits for has run, seconds."""
    return min(job.now - past.ran_at if (past := job.thread_history(key)) else 0.0 for key in graph.reached(goal))


def _computes(job: JobState, graph: Graph, goal: ThreadKey) -> bool:
    """A process the goal depends on uses a CPU, perhaps in native threads."""
    lives = (job.history.life(job.processes[pid]) for pid in {key[0] for key in graph.reached(goal)})
    return any(life is not None and (life.rate or 0.0) >= COMPUTES_SHARE for life in lives)


def _from_the_beginning(job: JobState, stood_s: float) -> bool:
    """It has stood still for nearly the whole observation, and for long enough to be seen at least twice."""
    return stood_s >= STILL_S and job.history.watched_s - stood_s < MIN_WATCH_S


def _is_slow(job: JobState, graph: Graph, goal: ThreadKey) -> bool:
    """The goal has waited for a while for a thread that makes progress. Waiting for a process to end does not count: that
    may take any time.
    """
    waits_for_end = job.wait_state(goal).kind in (*_ENDS, Wait.SIGNAL)
    if waits_for_end or is_server(job, goal) or graph.node(goal).status is not Status.WAITS or graph.closed(goal):
        return False
    stands = job.motion(goal) not in (Motion.PROGRESSING, Motion.UNKNOWN)
    return stands and job.now - stands_since(job, goal) >= PATIENCE_S


def _finding(stuck: StuckSet) -> Finding:
    cause, match = _match(stuck)
    suspects = responsible(stuck)
    certainty, doubts = judged(stuck, match)
    found = Finding(
        cause=cause, certainty=certainty, doubts=doubts, summary=_sentence(match, stuck),
        suspects=tuple(_with_line(stuck, _with_end(stuck.job, suspect)) for suspect in suspects),
        waiters=tuple(row for row in stuck.waiters() if row.pid not in {suspect.pid for suspect in suspects}),
        chain=stuck.chain(), evidence=tuple(dict.fromkeys(line for line in match.evidence if line)),
        advice=match.advice, since=stuck.since(), threads=match.threads,
    )  # fmt: skip
    evidence = (*found.evidence, *_in_native_code(stuck), *agreement(found, stuck.job.stacks))
    return msgspec.structs.replace(found, evidence=evidence, advice=(*found.advice, *further_advice(stuck.job, found)))


MOST_IN_C = 4
"""Members of a chain whose waits in C are reported."""


def _in_native_code(stuck: StuckSet) -> tuple[str, ...]:
    """What the C and C++ frames in the chain show about the waits, root blockers first."""
    keys = dict.fromkeys((*stuck.root_blockers[:1], *reversed(stuck.closed.path)))
    facts = [(key, fact) for key in keys if (fact := stuck.job.native_hints.get(key)) and fact.words]
    return tuple(
        f"C and C++ frames of {_name(stuck, key)}: {fact.words}"
        + ("" if fact.certain or fact.sampled else ", inferred from frames found by searching the stack")
        for key, fact in facts[:MOST_IN_C]
    )


def _name(stuck: StuckSet, key: ThreadKey) -> str:
    name = stuck.job.role(key[0]).name
    return name if key[0] == key[1] else f"{stuck.job.thread_words(key)} of {name}"


def _with_end(job: JobState, suspect: Suspect) -> Suspect:
    return msgspec.structs.replace(suspect, end=death(job, suspect.pid).how) if suspect.dead else suspect


def _with_line(stuck: StuckSet, suspect: Suspect) -> Suspect:
    """Gives a native thread the Python line that called its library."""
    caller = stuck.caller((suspect.pid, suspect.tid)) if suspect.tid is not None and suspect.frame is None else None
    return msgspec.structs.replace(suspect, frame=stuck.job.place(caller)) if caller else suspect


def _match(stuck: StuckSet) -> tuple[str, Match]:
    if found := _hidden(stuck):
        return found
    for rule in RULES:
        match = rule.match(stuck)
        if match:
            return rule.CAUSE, match
    if found := _exchange(stuck):
        return found
    if stuck.nobody is None and (asked := hub(stuck)):
        return _asked_by_all(stuck, asked[0])
    first = next(
        ((row.pid, row.tid) for row in responsible(stuck) if row.tid and not row.dead), stuck.root or stuck.goal
    )
    rest = (
        f"nobody can end that: {stuck.nobody.why}" if stuck.nobody else "everyone who could unblock it is blocked too"
    )
    words = f"{_name(stuck, first)} is {doing(stuck.job, first)}, and {rest}"
    return _nearest_cause(stuck), Match(summary=words, evidence=stuck.edge_evidence(), certainty=Certainty.POSSIBLE)


def _asked_by_all(stuck: StuckSet, asked: ThreadKey) -> tuple[str, Match]:
    """All others wait for one that waits for any of them, or for whoever comes."""
    job = stuck.job
    others = dict.fromkeys(job.role(key[0]).name for key in stuck.closed.core if key[0] != asked[0])
    waits = several(list(others)) + (" waits for it" if len(others) == 1 else " wait for it")
    return "main-stuck" if asked == stuck.goal or job.role(asked[0]).kind == "main" else "worker-stuck", Match(
        summary=f"{job.role(asked[0]).name} is {doing(job, asked)}, and {waits}: nobody else could unblock them",
        evidence=stuck.edge_evidence(),
        certainty=Certainty.POSSIBLE,
    )


def _hidden(stuck: StuckSet) -> tuple[str, Match] | None:
    """All waits end in a process that may not be read: all that is known is that it stands still."""
    if stuck.ending is not Ending.LEAF or stuck.root is None or stuck.wait_state().kind is not Wait.UNKNOWN:
        return None
    if not hides_call(stuck.job, stuck.root):
        return None
    pid = stuck.root[0]
    return "main-stuck" if stuck.is_goal else "worker-stuck", Match(
        summary=f"{stuck.role()} (pid {pid}) has not run for {stuck.for_how_long()}, and its current call "
        "cannot be read (no permission)",
        evidence=(f"the counters of /proc/{pid}/schedstat do not change", *stuck.edge_evidence()),
        advice=(f"Give mpmon permission to read it: `mpmon doctor {pid}` tells how.",),
        certainty=Certainty.POSSIBLE,
    )


_EXCHANGED = frozenset({Wait.PIPE_READ, Wait.PIPE_WRITE, Wait.SOCKET, Wait.POLL, Wait.QUEUE_GET, Wait.QUEUE_PUT})
"""Waits for the other end of something that two processes have."""


def _exchange(stuck: StuckSet) -> tuple[str, Match] | None:
    """Processes that wait for each other's messages, each for any of several others, and no rule knows more."""
    among = [key for key in stuck.closed.core if stuck.wait_state(key).kind in _EXCHANGED]
    pids = list(dict.fromkeys(key[0] for key in among))
    targets = (target for key in among for target in stuck.targets(key))
    closed = all(isinstance(target, tuple) and target[0] in pids for target in targets)
    if stuck.ending not in (Ending.OPEN, Ending.CYCLE) or len(pids) < 2 or stuck.root not in among or not closed:
        return None
    steps = [f"{stuck.job.role(key[0]).name} waits for {stuck.waits_for(key)}{stuck.at(key)}" for key in among]
    words = (
        f"{several([stuck.job.role(pid).name for pid in pids])} wait for each other: {'; '.join(steps[:MOST_STEPS])}"
    )
    advice = ("Look for what one side believes it has sent: kept in a buffer (flush), or sent to somebody else.",
              "Look for what the other has got already: read ahead into a buffer of its own.")  # fmt: skip
    return "lock-cycle", Match(
        summary=words,
        evidence=stuck.edge_evidence(),
        advice=advice,
        certainty=Certainty.POSSIBLE,
        tells_of=frozenset(among),
    )


MOST_STEPS = 3
"""At most this many of the waits are told in the sentence."""


def _nearest_cause(stuck: StuckSet) -> str:
    """The cause named for a symptom that no rule explains."""
    kinds = {Wait.QUEUE_GET: "queue-empty", Wait.PIPE_READ: "queue-empty", Wait.QUEUE_PUT: "queue-full",
             Wait.PIPE_WRITE: "pipe-full", Wait.LOCK: "lock-held", Wait.FUTEX: "lock-held", Wait.THREAD_LOCK: "lock-held",
             Wait.PROCESS_EVENT: "item-lost", Wait.CONDITION: "thread-deadlock",
             Wait.THREAD_QUEUE: "thread-deadlock"}  # fmt: skip
    of_main = stuck.is_goal or (stuck.root is not None and stuck.job.role(stuck.root[0]).kind == "main")
    return kinds.get(stuck.wait_state().kind, "main-stuck" if of_main else "worker-stuck")


def _sentence(match: Match, stuck: StuckSet) -> str:
    parts = [match.summary, *_others_stand(stuck)]
    waits = "" if stuck.goal in match.tells_of else stuck.who_waits()
    return "; ".join([*parts, waits] if waits and waits not in match.summary else parts)


MOST_OTHERS = 2
"""At most this many further, independently blocked threads are described in the sentence."""


def _others_stand(stuck: StuckSet) -> list[str]:
    """Other root blockers that are blocked independently: hangs of their own."""
    job, first = stuck.job, stuck.root
    if stuck.ending is not Ending.LEAF or first is None:
        return []
    others = [key for key in stuck.root_blockers[1:] if key[0] != first[0]]
    alike = [key for key in others if doing(job, key) == doing(job, first)]
    rest = [key for key in others if key not in alike]
    told = [
        f"{job.role(key[0]).name} has been {doing(job, key, age(job.now - stands_since(job, key)))}"
        for key in rest[:MOST_OTHERS]
    ]
    same = [f"so {'have' if len(alike) > 1 else 'has'} {several([job.role(key[0]).name for key in alike])}"]
    return [
        *(same if alike else ()),
        *told,
        *([f"and {len(rest) - MOST_OTHERS} more"] if len(rest) > MOST_OTHERS else []),
    ]


def _is_ripe(stuck: StuckSet) -> bool:
    """The set has stood still long enough to be called a hang."""
    job = stuck.job
    patience = PATIENCE_S if stuck.is_frozen or _polls_while_others_stand(stuck) else RUNNING_PATIENCE_S
    if job.history.watched_s < MIN_WATCH_S or stuck.stood_s < max(patience, _rounds_of_polling_s(stuck)):
        return False
    # A thread that retries may succeed at its next attempt, if a process that just ended released what it needs.
    polls = not stuck.closed.exact and stuck.motion() is Motion.POLLING
    anybody = [*job.processes, *(row.pid for row in job.snapshot.exits)]
    ended = anybody if polls else [gone.pid for gone in stuck.gone]
    if any(job.now - at < NEXT_ROUND_S for pid in ended if (at := job.ended_at(pid)) is not None):
        return False
    edge = stuck.graph.node(stuck.goal).edge
    if stuck.is_goal or job.wait_state(stuck.goal).kind in _ENDS or (edge and edge.polled):
        return True
    return job.now - stands_since(job, stuck.goal) >= NEXT_ROUND_S


def _polls_while_others_stand(stuck: StuckSet) -> bool:
    """No root blocker computes, and those that wait for them have stood still for long, as the kernel tells: since before mpmon
    could see that the root blockers poll in vain.
    """
    job = stuck.job
    others = [key for key in stuck.closed.core if key not in stuck.root_blockers]
    polls = all(job.motion(key) in (Motion.NOT_SCHEDULED, Motion.POLLING) for key in stuck.root_blockers)
    return (
        polls
        and bool(others)
        and all(
            job.motion(key) is Motion.NOT_SCHEDULED and job.now - stands_since(job, key) >= RUNNING_PATIENCE_S
            for key in others
        )
    )


def _rounds_of_polling_s(stuck: StuckSet) -> float:
    """Seconds it takes to see a polling root blocker re-poll without result often enough."""
    polls = stuck.root is not None and stuck.ending is Ending.LEAF and stuck.motion() is Motion.POLLING
    return POLLS_IN_VAIN * (pause_s(stuck.blocked()) or 0.0) if polls else 0.0


_ENDS = frozenset({Wait.LAUNCHER, Wait.JOIN_PROCESS, Wait.CHILD, Wait.REMOTE_END})
"""Waits for other processes to end: their main threads are then goals as well."""

_STAYS = _ENDS | {Wait.JOIN_THREAD, Wait.SIGNAL}
"""Waits of threads that started other threads or processes and have nothing more to do."""


def _goals(job: JobState, graph: Graph) -> list[ThreadKey]:
    """The threads whose progress counts: the main threads of the programs, of processes whose end they wait for, and of
    ranks.
    """
    goals = [(pid, pid) for pid in _programs(job)]
    for goal in goals:
        edge = graph.node(goal).edge
        if edge and job.wait_state(goal).kind in _ENDS:
            goals += [target for target in edge.targets if isinstance(target, tuple) and target not in goals]
    return list(dict.fromkeys([*goals, *((pid, pid) for pid in job.ranks)]))


def _programs(job: JobState) -> list[int]:
    """The root, or the Python programs below a root that only starts others; such a root too while it is stopped."""
    root = job.snapshot.root_pid
    if not job.role(root).starts:
        return [root]
    return [root, *_python_below(job)] if job.processes[root].stopped else _python_below(job)


def _python_below(job: JobState) -> list[int]:
    """The topmost Python processes (recognised by frames or program name): no other Python process of the job started them."""
    foreign = {row.pid for row in job.snapshot.unknowns if row.table == "stacks" and row.reason == NOT_PYTHON}
    alive = [row for row in job.snapshot.processes if not row.ended]
    is_one = {row.pid: job.has_frames(row.pid) or (row.pid not in foreign and is_python(row)) for row in alive}
    return list(topmost_python(alive, job.snapshot.root_pid, lambda row: is_one[row.pid]))


def _blind(job: JobState) -> str:
    """Why nothing can be said; empty if something can."""
    root = job.snapshot.root
    if root is None:
        return "the process has ended"
    if root.ended:
        return "the process is a zombie: it has ended, and its parent has not reaped it"
    if _without_python(job):
        return f"pid {root.pid} is not a Python process and has no Python descendants"
    seen = any(_was_seen(job, pid) for pid in job.processes)
    if not seen and job.history.rounds > 1:
        reasons = [row for row in job.snapshot.unknowns if not row.gone]
        reasons.sort(key=lambda row: (row.table != "stacks", row.pid != job.snapshot.root_pid))
        return reasons[0].reason if reasons else "no process could be read yet"
    return ""


def _shows_a_stop(job: JobState) -> bool:
    """A process of the job is stopped, which anybody may read."""
    return job.is_alive(job.snapshot.root_pid) and any(row.stopped for row in job.snapshot.processes)


def _dead_words(job: JobState) -> str:
    """The zombies of a living job about which nothing else is known, in words."""
    if not job.zombies or not job.is_alive(job.snapshot.root_pid):
        return ""
    names = [f"{job.role(pid).name} (pid {pid}) {did(death(job, pid).how)}" for pid in job.zombies]
    return f"; still visible: {several(names)}"


def _without_python(job: JobState) -> bool:
    """The root is not Python and, as far as known, has no Python descendants."""
    root = job.snapshot.root_pid
    return (job.role(root).starts or job.is_foreign(root)) and not _python_below(job)


def _was_seen(job: JobState, pid: int) -> bool:
    """Its main thread's stack or system call could be read at least once."""
    past = job.thread_history((pid, pid))
    samples = past.samples if past else ()
    return any(sample.stack or (sample.blocked and sample.blocked.syscall) for sample in samples)


def _unchecked(job: JobState, findings: tuple[Finding, ...] = ()) -> tuple[Unchecked, ...]:
    """The causes that cannot be decided because facts are missing; causes that were found are decided."""
    found = {finding.cause for finding in findings}
    return tuple(unchecked(job, {rule.CAUSE: rule.NEEDS for rule in RULES if rule.CAUSE not in found}))


def _healthy_words(job: JobState, goals: list[ThreadKey]) -> str:
    goal = next((goal for goal in goals if job.wait_state(goal).kind not in _ENDS), goals[0])
    name = job.role(goal[0]).name
    if job.wait_state(goal).idle:
        return f"{name} is idle, as expected: it waits for {job.wait_state(goal).words}"
    moves = job.motion(goal) is Motion.PROGRESSING
    said = f"{name} is making progress: {doing(job, goal)}" if moves else f"{name} is {doing(job, goal)}"
    return f"{said}{_above(job)}"


def _above(job: JobState) -> str:
    """The remark that a root which only starts others is not judged; empty for any other root."""
    root = job.snapshot.root_pid
    role = job.role(root)
    if job.snapshot.nodes:
        return ""
    return f" ({role.name}, pid {root}, is not Python: only its Python descendants count)" if role.starts else ""


def _slow_words(job: JobState, graph: Graph, goal: ThreadKey) -> str:
    others = islice(graph.reached(goal), 1, None)
    helper = next((key for key in others if graph.node(key).status is Status.LIVE), None)
    words = f"{job.role(goal[0]).name} has waited for {age(job.now - stands_since(job, goal))}"
    if helper is None:
        edge = graph.node(goal).edge
        return f"{words} for {edge.words}" if edge and edge.words else words
    other = f"its {job.thread_words(helper)}" if helper[0] == goal[0] else job.role(helper[0]).name
    moves = job.motion(helper) in (Motion.PROGRESSING, Motion.BUSY_LOOP)
    return f"{words} for {other}, which is {'making progress: ' if moves else ''}{doing(job, helper)}"
