"""The report for people: verdict, root blocker, evidence, job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import structs

from mpmon.diagnosis import loops
from mpmon.diagnosis.findings import Diagnosis, Finding, Observation, ProcessView, Remark, Suspect, Verdict, by_reason
from mpmon.diagnosis.hosts import Hosts
from mpmon.diagnosis.humanize import age, with_pid
from mpmon.diagnosis.stacks import lock_annotations, merging
from mpmon.diagnosis.stacks.frames import own_frames
from mpmon.diagnosis.throughput import pace
from mpmon.model import Frame, NativeFrame, Process, Snapshot, Stack
from mpmon.printable import command_line, in_ascii, written_out
from mpmon.reports import sharing

MOST_FRAMES = 12
"""Number of a suspect's frames that are printed."""

MOST_MERGED = 32
"""The same if C frames are among them."""

LONGEST_NAME = 100
"""Characters of a C++ function name."""

MOST_TASKS, LONGEST_TASK = 12, 160
"""Number of tasks of an event loop that are printed, and characters of each."""

MOST_WAITERS = 8

MOST_DEPTH = 20
"""Deeper processes of the tree are drawn at this depth."""

LONGEST_HOST = 20
"""Characters of a machine name in the list of processes."""

STANDING = frozenset({"suspect", "waiting", "stopped"})
"""States of processes whose duration is shown."""


def render(observation: Observation, *, ascii_only: bool = False) -> str:
    """The whole report as text, without a newline at the end."""
    text = "\n".join(map(written_out, _lines(observation)))
    return in_ascii(text) if ascii_only else text


def _lines(observation: Observation) -> Iterator[str]:
    snapshot, diagnosis = observation.snapshot, observation.diagnosis
    yield _headline(snapshot, diagnosis)
    if not diagnosis.findings:
        yield f"  {diagnosis.because}."
        yield from (f"  {line}." for line in pace.in_words(diagnosis, snapshot.taken_at))
    for number, finding in enumerate(diagnosis.findings):
        yield from _finding(snapshot, finding, first=number == 0)
    yield from _remarks(diagnosis.remarks)
    yield ""
    yield from _tree(snapshot, diagnosis)
    yield from map(Hosts(snapshot).text, sharing.lines(observation))
    yield from _not_known(diagnosis)
    yield ""
    undecided = diagnosis.verdict is Verdict.UNKNOWN and not diagnosis.hidden and not _is_over(snapshot)
    yield f"observed for {observation.watched_s:.1f} s{' (--for SECONDS observes longer)' if undecided else ''}"


def _is_over(snapshot: Snapshot) -> bool:
    """What the user named has ended, so that nobody learns more of it."""
    return not snapshot.nodes and (snapshot.root is None or snapshot.root.ended)


def _headline(snapshot: Snapshot, diagnosis: Diagnosis) -> str:
    verdict = diagnosis.verdict.value.upper()
    if diagnosis.since is not None and diagnosis.verdict in (Verdict.HUNG, Verdict.SLOW):
        moment = datetime.fromtimestamp(diagnosis.since).strftime("%H:%M:%S")
        verdict += f" for {age(snapshot.taken_at - diagnosis.since)} (since {moment})"
    root = snapshot.root
    command = command_line(root.cmdline or (root.name,)) if root else "ended"
    count = len(snapshot.processes) - bool(snapshot.nodes and root)
    what = f"job on {snapshot.host}" if snapshot.nodes else f"pid {snapshot.root_pid}"
    size = f"{count} process{'es' if count != 1 else ''}"
    return f"{verdict}: {what}, {size}" + ("" if snapshot.nodes else f", {_cut(command, 70)}")


def _finding(snapshot: Snapshot, finding: Finding, *, first: bool) -> Iterator[str]:
    hosts = Hosts(snapshot)
    if not first:
        yield ""
    yield f"  {finding.summary}."
    yield f"  cause: {finding.cause} ({finding.certainty.value})"
    if first and len(finding.chain) > 1:
        yield ""
        yield from _chain(finding, hosts)
    for suspect in finding.suspects[:2] if first else ():
        yield ""
        yield from _suspect(snapshot, suspect, _how(finding, suspect))
    yield from _section("evidence", finding.evidence)
    yield from _section("not proved", finding.doubts)
    yield from _section(
        "who waits for what",
        [f"{with_pid(row.role, hosts.pid(row.pid))}: {row.waits_for}" for row in finding.waiters[:MOST_WAITERS]],
    )
    yield from _section("what to do", finding.advice)


def _remarks(remarks: tuple[Remark, ...]) -> Iterator[str]:
    if remarks:
        yield ""
        yield "  remarks:"
    for remark in remarks:
        yield f"    - {remark.summary} ({remark.topic})"
        yield from (f"        {line}" for line in (*remark.evidence, *remark.advice))


def _chain(finding: Finding, hosts: Hosts) -> Iterator[str]:
    for step, link in enumerate(finding.chain):
        arrow = "  " if step == 0 else "  " + "   " * (step - 1) + "└─ "
        place = f"  {link.place}" if link.place else ""
        name = with_pid(link.role, hosts.pid(link.pid)) if link.pid else link.role
        thread = f", {link.thread}" if link.thread else ""
        yield f"{arrow}{name}{thread}: {link.does}{place}"


_CIRCLE = "lock-cycle"
"""The cause of findings all of whose suspects, if they are several, block one another."""


def _how(finding: Finding, suspect: Suspect) -> str:
    if finding.cause == _CIRCLE and len(finding.suspects) > 1:
        return "is in the circle"
    return "blocks the others" if _holds_up_others(finding, suspect) else "is stuck"


def _holds_up_others(finding: Finding, suspect: Suspect) -> bool:
    chained = ((link.pid, link.thread or suspect.thread) for link in finding.chain if link.pid)
    return bool(finding.waiters) or any(link != (suspect.pid, suspect.thread) for link in chained)


def _suspect(snapshot: Snapshot, suspect: Suspect, how: str) -> Iterator[str]:
    name = with_pid(suspect.role, Hosts(snapshot).pid(suspect.pid))
    if suspect.dead:
        yield f"  {name} is dead: {suspect.end or 'ended'}"
        return
    thread = merging.thread_of(snapshot, suspect.pid, suspect.tid)
    stack = next((row for row in snapshot.stacks if (row.pid, row.tid) == (suspect.pid, suspect.tid)), None)
    frames = thread.told if thread else tuple(own_frames(stack)) if stack else ()
    native = thread if any(isinstance(frame, NativeFrame) for frame in frames) else None
    marks = " (| = C and C++)" if native else ""
    yield f"  {name} {how}, in {suspect.thread}{marks}{':' if frames else ''}"
    yield from _frames(frames, _notes(snapshot, stack) if stack else {}, MOST_MERGED if native else MOST_FRAMES)
    yield from (f"      ({note})" for note in (native.notes if native else ()))
    tasks = [row for row in snapshot.tasks if row.pid == suspect.pid]
    if told := loops.lines(tasks, suspect.tid or 0, MOST_TASKS):
        yield f"  tasks of the event loop in {suspect.thread}:"
        yield from (f"      {_cut(line, LONGEST_TASK)}" for line in told)


def _notes(snapshot: Snapshot, stack: Stack) -> dict[int, tuple[str, ...]]:
    """Notes on frames, by the identity of the frame."""
    return {id(stack.frames[at]): notes for at, notes in lock_annotations.by_frame(snapshot, stack).items()}


def _frames(frames: tuple[Frame | NativeFrame, ...], notes: dict[int, tuple[str, ...]], most: int) -> Iterator[str]:
    for frame in frames[:most]:
        if isinstance(frame, NativeFrame):
            yield f"      | {merging.native_text(frame, LONGEST_NAME)}"
        else:
            yield f"      {frame_text(frame)}"
        yield from (f"        - {note}" for note in notes.get(id(frame), ()))
    if len(frames) > most:
        yield f"      … {len(frames) - most} more"


def frame_text(frame: Frame) -> str:
    """`download (job.py:23)`."""
    return f"{frame.function} ({frame.file.rpartition('/')[2]}:{frame.line})"


def _section(title: str, lines: tuple[str, ...] | list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"  {title}:"
        yield from (f"    - {line}" for line in lines)


def _tree(snapshot: Snapshot, diagnosis: Diagnosis) -> Iterator[str]:
    views = {view.pid: view for view in diagnosis.processes}
    children: dict[int | None, list[Process]] = {}
    present = {process.pid for process in snapshot.processes}
    gone = [row for row in snapshot.exits if row.pid in views and row.pid not in present]
    ended = [structs.replace(row.process, state="X") for row in gone]
    for process in (*snapshot.processes, *ended):
        view = views.get(process.pid)
        parent = view.parent if view and view.parent in views else None
        children.setdefault(parent if process.pid != snapshot.root_pid else None, []).append(process)
    hosts = Hosts(snapshot)
    yield "  processes:"
    # A stack instead of recursion: a job may be a chain of a thousand processes.
    tops = children.get(None, [])
    if hosts:
        # The root of the joined tree of several machines is not a process.
        tops = [row for top in tops for row in (children.get(top.pid, []) if not top.host else [top])]
    width = min(max((len(row.host) for row in tops), default=0), LONGEST_HOST)
    left = [(top, 0) for top in reversed(tops)]
    while left:
        process, depth = left.pop()
        place = f"{_cut(process.host, width):<{width}} " if hosts else ""
        yield _process(
            process, views.get(process.pid), depth, snapshot.taken_at, f"{place}{hosts.number(process.pid):>7}"
        )
        left += [(child, depth + 1) for child in reversed(children.get(process.pid, []))]


def _process(process: Process, view: ProcessView | None, depth: int, now: float, pid: str) -> str:
    mark = "▶" if view and view.mood == "suspect" else " "
    role = view.role if view else "other"
    name = f"{'  ' * min(depth, MOST_DEPTH)}{role}"
    return f"  {mark} {pid} {process.state}  {name:<24} {_does(view, now) if view else ''}".rstrip()


def _does(view: ProcessView, now: float) -> str:
    """What it does and, if it makes no progress, for how long."""
    stands = view.still_since is not None and view.mood in STANDING and now - view.still_since >= 1.0
    return (
        f"{view.does} (for {age(now - view.still_since)})" if stands and view.still_since and view.does else view.does
    )


def _not_known(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _section("could not be read", by_reason(diagnosis.unchecked))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
