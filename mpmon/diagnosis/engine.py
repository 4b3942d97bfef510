"""From a history to a diagnosis: the goals, their closed sets, the findings, the verdict.

The job hangs when a goal (the main program's main thread, or what it watches over) has been in a closed set for a
while. It is slow when the goal has waited for a while for a thread that still makes progress. Otherwise it is healthy,
unless too little could be read to say so.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from mpmon.diagnosis.edges import node
from mpmon.diagnosis.edges.deaths import death, did
from mpmon.diagnosis.explanation.ranking import ranked
from mpmon.diagnosis.explanation.views import process_views
from mpmon.diagnosis.findings import Diagnosis, Finding, ProcessView, Unchecked, Verdict
from mpmon.diagnosis.graph import Closed, Ending, Graph, Status, Target
from mpmon.diagnosis.hosts import told
from mpmon.diagnosis.humanize import age, several
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.missing_data import unchecked
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.remarks import remarks
from mpmon.diagnosis.rules import RULES
from mpmon.diagnosis.state.history import History, ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import StuckSet, doing, stands_since
from mpmon.diagnosis.thresholds import MIN_ROUNDS, MIN_WATCH_S, PATIENCE_S, RUNNING_PATIENCE_S, SETTLED_S
from mpmon.diagnosis.throughput.pace import Progress, progress
from mpmon.diagnosis.verdict.deadlocks import deadlocks
from mpmon.diagnosis.verdict.goals import OPENS_GOALS, blind, goals_of, looked_after, shows_a_stop
from mpmon.diagnosis.verdict.idle import is_idle, stuck_beside
from mpmon.diagnosis.verdict.patience import has_only_stood, is_ripe, is_slow, waits_long
from mpmon.diagnosis.verdict.requests import lost_requests, lost_work, own_requests
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
    unread = blind(job)
    if unread and not shows_a_stop(job):
        return _unknown(job, graph, unread)
    goals = goals_of(job, graph)
    asked = [goal for goal in goals if graph.node(goal).status is not Status.IDLE]
    asked += [key for goal in asked for key in looked_after(job, graph, goal) if key not in goals]
    closed_sets = [closed for goal in asked if (closed := graph.closed(goal)) and not is_idle(job, graph, closed)]
    closed_sets = [found for closed in closed_sets for found in stuck_beside(job, graph, closed) or [closed]]
    # One who is stuck by itself, and for whom another goal waits, is the end of that one's chain.
    alone = {closed.goal for closed in closed_sets if closed.members == closed.root_blockers == (closed.goal,)}
    awaited = {key for closed in closed_sets for key in closed.members if key != closed.goal}
    closed_sets = [closed for closed in closed_sets if closed.goal not in alone & awaited]
    keepers = {key for closed in closed_sets for key in closed.root_blockers if _rests(graph, key)}
    closed_sets = [_kept(graph, closed, keepers) for closed in closed_sets]
    closed_sets += lost_requests(job, graph, goals)
    own = own_requests(job, graph, goals)
    # Whoever waits together with these, waits because of them.
    closed_sets = [closed for closed in closed_sets if not any(one.goal in closed.members for one in own)] + own
    closed_sets += lost_work(job, graph, goals)
    closed_sets += deadlocks(job, graph)
    stuck_sets = [StuckSet(job, graph, closed) for closed in closed_sets]
    ripe = [stuck for stuck in stuck_sets if is_ripe(stuck)]
    if findings := ranked(ripe):
        return _hung(job, graph, ripe, findings)
    return _unknown(job, graph, unread) if unread else _not_hung(job, graph, goals, stuck_sets)


def _rests(graph: Graph, target: Target) -> bool:
    return isinstance(target, tuple) and graph.node(target).status is Status.IDLE


def _kept(graph: Graph, closed: Closed, keepers: set[Target]) -> Closed:
    """Who waits for the end of one that rests waits because of it, if others wait for that one to join them."""
    edge = graph.node(closed.path[-1]).edge
    found = [target for target in edge.targets if target in keepers] if edge else []
    if not found or not keepers.isdisjoint(closed.root_blockers):
        return closed
    path = (*closed.path, *(target for target in found[:1] if isinstance(target, tuple)))
    return msgspec.structs.replace(closed, root_blockers=tuple(found), ending=Ending.LEAF, path=path)


def _unknown(job: JobState, graph: Graph, why: str) -> Diagnosis:
    """The diagnosis when only world-readable facts are known: process states, ages, the process tree, exited processes."""
    patient = shows_a_stop(job) and job.history.watched_s < PATIENCE_S
    return Diagnosis(
        verdict=Verdict.UNKNOWN, because=why + _dead_words(job), settled=bool(job.snapshot.unknowns) and not patient,
        unchecked=_unchecked(job), processes=process_views(job, graph, ()),
    )  # fmt: skip


def _hung(job: JobState, graph: Graph, stuck_sets: list[StuckSet], findings: tuple[Finding, ...]) -> Diagnosis:
    settled = all(stuck.stood_s >= SETTLED_S and stuck.is_frozen for stuck in stuck_sets)
    return Diagnosis(
        verdict=Verdict.HUNG, since=findings[0].since, settled=settled, because=findings[0].summary,
        findings=findings, unchecked=_unchecked(job, findings), processes=process_views(job, graph, findings),
    )  # fmt: skip


def _not_hung(job: JobState, graph: Graph, goals: list[ThreadKey], stuck_sets: list[StuckSet]) -> Diagnosis:
    verdict, since, because, hidden = Verdict.HEALTHY, None, _healthy_words(job, graph, goals), ()
    gets_on = Progress()
    slow = next((goal for goal in goals if is_slow(job, graph, goal)), None)
    waits = any(graph.node(goal).status is Status.WAITS for goal in goals)
    if job.history.watched_s < MIN_WATCH_S:
        verdict = Verdict.UNKNOWN
        because = f"observed for only {job.history.watched_s:.1f} s, too short to tell"
    elif waits and job.history.rounds < MIN_ROUNDS:
        verdict = Verdict.UNKNOWN
        because = f"observed for {job.history.watched_s:.1f} s, but only {job.history.rounds} times: too seldom to tell"
    elif hidden := tuple(dict.fromkeys(key for goal in goals for key in graph.rests_on(goal))):
        verdict, because = Verdict.UNKNOWN, _hidden_words(job, hidden[0][0])
    elif still := has_only_stood(job, graph, goals, stuck_sets):
        verdict, (since, what) = Verdict.UNKNOWN, still
        because = f"{what}, and has stood still for {age(job.now - since)}: only a longer observation can tell whether it hangs"
    elif stuck_sets:
        stuck = max(stuck_sets, key=lambda stuck: stuck.stood_s)
        verdict = Verdict.SLOW if stuck.stood_s >= RUNNING_PATIENCE_S else verdict
        since, because = stuck.since(), f"{stuck.role()} is {stuck.doing()}, so far only for {stuck.for_how_long()}"
    elif slow:
        verdict, since = Verdict.SLOW, stands_since(job, slow)
        because = _waiting_words(job, graph, slow)
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


def _dead_words(job: JobState) -> str:
    """The zombies of a living job about which nothing else is known, in words."""
    if not job.zombies or not job.is_alive(job.snapshot.root_pid):
        return ""
    names = [f"{job.full_name(pid)} {did(death(job, pid).how)}" for pid in job.zombies]
    return f"; still visible: {several(names)}"


def _unchecked(job: JobState, findings: tuple[Finding, ...] = ()) -> tuple[Unchecked, ...]:
    """The causes that cannot be decided because facts are missing; causes that were found are decided."""
    found = {finding.cause for finding in findings}
    return tuple(unchecked(job, {rule.CAUSE: rule.NEEDS for rule in RULES if rule.CAUSE not in found}))


def _healthy_words(job: JobState, graph: Graph, goals: list[ThreadKey]) -> str:
    goal = next((goal for goal in goals if job.wait_state(goal).kind not in OPENS_GOALS), goals[0])
    name = job.role(goal[0]).name
    if job.wait_state(goal).idle:
        return f"{name} is idle, as expected: it waits for {job.wait_state(goal).words}"
    if waits_long(job, graph, goal):
        return f"{_waiting_words(job, graph, goal)}{_above(job)}"
    moves = job.motion(goal) is Motion.PROGRESSING
    return f"{name} is {_in_motion(doing(job, goal)) if moves else doing(job, goal)}{_above(job)}"


def _in_motion(last: str) -> str:
    return f"making progress (last seen {last})"


def _above(job: JobState) -> str:
    """The remark that a root which only starts others is not judged; empty for any other root."""
    root = job.snapshot.root_pid
    role = job.role(root)
    if job.snapshot.nodes:
        return ""
    return f" ({role.name}, pid {root}, is not Python: only its Python descendants count)" if role.starts else ""


def _waiting_words(job: JobState, graph: Graph, goal: ThreadKey) -> str:
    others = islice(graph.reached(goal), 1, None)
    helper = next((key for key in others if graph.node(key).status is Status.LIVE), None)
    words = f"{job.role(goal[0]).name} has been waiting for {age(job.now - stands_since(job, goal))}"
    if helper is None:
        edge = graph.node(goal).edge
        return f"{words} for {edge.words}" if edge and edge.words else words
    other = f"its {job.thread_words(helper)}" if helper[0] == goal[0] else job.role(helper[0]).name
    moves = job.motion(helper) is Motion.PROGRESSING
    return f"{words} for {other}, which is {_in_motion(doing(job, helper)) if moves else doing(job, helper)}"
