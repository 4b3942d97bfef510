"""What the kernel says a thread waits for, and who could end that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.numerals import numeral
from mpmon.tui import format as fmt
from mpmon.tui.line import Line, Span, clip

if TYPE_CHECKING:
    from mpmon.model import Blocked, KernelObject
    from mpmon.tui.scene import Scene

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "uninterruptible sleep",
    "T": "stopped by a signal",
    "t": "held by a tracer",
    "Z": "zombie",
    "X": "ended",
    "I": "idle",
}
"""Letters of proc_pid_stat(5) in words."""

NAMED = 3
"""How many processes are named before "and 5 more"."""


def kernel_lines(scene: Scene, blocked: Blocked, width: int) -> list[Line]:
    """The system call with its ages, then each thing it waits for."""
    lines = [clip(_call(scene, blocked), width)]
    lines += [clip(_object(scene, blocked, waited), width) for waited in blocked.waits_on]
    return lines


def _call(scene: Scene, blocked: Blocked) -> Line:
    """`in read · asleep 4 min 12 s · wakes in 3 s`."""
    if blocked.syscall == "running":
        return (("on a CPU", "good"),)
    where = blocked.syscall or blocked.wchan
    spans: list[Span] = [("in ", "dim"), (where, "")] if where else [(f"state {blocked.state}", "dim")]
    if _is_over(scene, blocked):
        return (*spans, (" when last sampled; it has run since", "dim"))
    asleep = scene.since(blocked.ran_at)
    if asleep is not None:
        spans.append((f" · asleep {fmt.age(asleep)}", ""))
    if blocked.timeout_s is not None and (asleep or 0.0) <= blocked.timeout_s:  # one that is over says nothing
        limit = "less than 1 s" if blocked.timeout_s < 1 else f"at most {fmt.age(blocked.timeout_s)}"
        spans.append((f" · waits {limit}", ""))
    if blocked.wakes_at is not None:
        left = blocked.wakes_at - scene.now
        spans.append((f" · wakes in {'less than 1 s' if left < 1 else fmt.age(left)}", ""))
    return tuple(spans)


def _is_over(scene: Scene, blocked: Blocked) -> bool:
    """It has run since that look, or will at any moment: its time was up."""
    view = scene.views.get(blocked.pid)
    moves = blocked.tid == blocked.pid and view is not None and view.mood == "working"
    return (blocked.wakes_at is not None and blocked.wakes_at < scene.now) or (moves and blocked.ran_at is not None)


def _object(scene: Scene, blocked: Blocked, waited: str) -> Line:
    """One thing waited for: `waits for data in pipe:18 · 0 of 65536 bytes · other end: main (4100)`."""
    what = "waits for room in " if blocked.writes else "waits for "
    if waited.startswith("process:"):
        return (("  " + what, "dim"), (_process(scene, waited.partition(":")[2]), ""))
    spans: list[Span] = [("  " + what, "dim"), (waited, "place")]
    found = scene.objects.get(waited)
    facts = object_facts(scene, found) if found else []
    if not (found and found.listens):
        facts.append(_others(scene, blocked, (waited, found.peer or "") if found else (waited,)))
    return (*spans, *((f" · {fact}", "") for fact in facts))


def _process(scene: Scene, number: str) -> str:
    """A process by role and pid: any child for wait(2), and for a pidfd of -1 one that has ended and was collected."""
    pid = numeral(number)
    return {"any": "any child", "-1": "a process that has ended"}.get(number, number) if pid is None else scene.who(pid)


def object_facts(scene: Scene, found: KernelObject) -> list[str]:
    """What is known of an object, each a few words."""
    facts: list[str] = []
    if found.path:
        facts.append(found.path)
    if found.fill is not None:
        facts.append(f"{found.fill} of {found.capacity} bytes" if found.capacity else f"{found.fill} bytes unread")
    if found.value is not None:
        facts.append(f"value {found.value}")
    if found.waiters:
        facts.append(fmt.plural(found.waiters, "waiter"))
    if found.owner_tid:
        facts.append(f"taken by thread {found.owner_tid}")
    if found.holders:
        facts.append("locked by " + names(scene, found.holders))
    return facts


def _others(scene: Scene, blocked: Blocked, objects: tuple[str, ...]) -> str:
    """Who could wake the waiter: who holds the lock, those who hold the other direction of the object, or its peer."""
    if holders := [row for row in scene.snapshot.locks if row.holds and row.object in objects]:
        return f"held by thread {scene.thread_name(holders[0].pid, holders[0].tid)}"
    if objects[0].startswith("futex:"):
        return "what could wake it is not known"
    handles = scene.handles_on(objects)
    others = {h.pid for h in handles if h.pid != blocked.pid and (h.reads if blocked.writes else h.writes)}
    if others:
        return "other end: " + names(scene, tuple(sorted(others)))
    if any(handle.pid == blocked.pid and handle.object in objects[1:] for handle in handles):
        return "its own process has the other end"
    return "no other known process at the other end" if handles else "other end unknown"


def names(scene: Scene, pids: tuple[int, ...]) -> str:
    """Processes by role and pid, the first few of many."""
    said = ", ".join(scene.who(pid) for pid in pids[:NAMED])
    return f"{said} and {len(pids) - NAMED} more" if len(pids) > NAMED else said
