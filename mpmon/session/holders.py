"""Which processes and threads hold awaited objects; read after the looks of a round, only from possible holders.

- The lock of a file: whose open file descriptions have it, by `lock:` of proc_pid_fdinfo(5).
- A semaphore between processes: what each process that maps it has taken, from the memory of that process.
- A lock of a program's own making, which others poll for in `__enter__`: who is in the body of such a `with` block.
- A lock within a process, and an awaited thread or future: from the memory of its interpreter; for parents, also which
  children their program still refers to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from mpmon.model import Handle, KernelObject, ProbeReport, Unknown
from mpmon.probes.aside import Unanswered, in_turn
from mpmon.probes.files import Proc
from mpmon.probes.processes import ProcessTable
from mpmon.session.look import Look, is_taken_semaphore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.loops import Loop

MOST_NAPPING, MOST_NAPPING_LIVE = 64, 8
"""Most processes whose threads are checked for what they did between two naps: for one report, on a live screen."""

SEARCHES_PER_ROUND = 8
"""Most processes of one round whose memory is searched for semaphores."""

LEAST = 16
"""Processes whose memory is read even if the time for it is over: those of the first batch of looks."""

NO_TIME = "there was no time to read its memory; observe longer (--for)"

Looks = Mapping[int, Look]
"""The last thorough look at each process, by pid."""


def note_file_locks(proc: Proc, looks: Looks) -> None:
    """Note which processes have a file's lock, if a process waits for it or the one that took it closed the file."""
    locks = {item.id: item for look in looks.values() for item in look.objects if item.kind == "file lock"}
    if not locks:
        return
    from mpmon.probes.file_locks import has_lock

    handles = [row for look in looks.values() for row in look.handles if row.object in locks]
    wanted = _waited_on(looks) | _left_by_their_taker(locks.values(), handles)
    holders: dict[str, list[int]] = {name: [] for name in locks}
    for row in handles:
        known = row.pid in holders[row.object]
        if row.object in wanted and row.fd is not None and not known and has_lock(proc, row.pid, row.fd):
            holders[row.object].append(row.pid)
    for look in looks.values():
        look.objects = tuple(_with_holders(item, tuple(holders.get(item.id, ()))) for item in look.objects)


def _waited_on(looks: Looks) -> set[str]:
    return {name for look in looks.values() for row in look.blocked for name in row.waits_on}


def _left_by_their_taker(locks: Iterable[KernelObject], handles: Iterable[Handle]) -> set[str]:
    """Files whose lock was taken by a process that no longer has them open."""
    openers = {(row.object, row.pid) for row in handles}
    return {item.id for item in locks if any((item.id, pid) not in openers for pid in item.holders)}


def _with_holders(item: KernelObject, holders: tuple[int, ...]) -> KernelObject:
    """The row with the current holders of the lock, if a process that once took it no longer has it."""
    stale = holders and item.kind == "file lock" and not set(item.holders) <= set(holders)
    sharers = holders if set(item.holders) <= set(item.sharers) else ()
    # If one of the processes that took it still has it, the others may have taken a lock of their own.
    takers = () if set(item.holders) & set(holders) else item.holders
    return msgspec.structs.replace(item, holders=holders, sharers=sharers, takers=takers) if stale else item


def search_semaphores(
    proc: Proc, looks: Looks, now: Callable[[], float], most: int | None, until: float
) -> list[ProbeReport]:
    """For each awaited semaphore, read what each process that maps it has taken; from at most `most` processes, and as
    far as there is time before `until`.
    """
    items = (item for look in looks.values() for item in look.objects)
    wanted = frozenset(item.id for item in items if is_taken_semaphore(item))
    asked = [look for look in looks.values() if look.maps_unasked(wanted)]
    if not asked:
        return []
    from mpmon.probes.semaphores import semaphore_uses

    started = now()
    for number, look in enumerate(asked[:most]):
        if number >= LEAST and now() >= until:
            break
        try:
            look.semaphores, look.semaphores_problem = semaphore_uses(proc, look.pid, wanted)
        except Unanswered as problem:
            look.semaphores, look.semaphores_problem = (), _unread("semaphores", look.pid, problem)
        look.semaphores_asked = wanted
    problem = next((look.semaphores_problem.reason for look in asked if look.semaphores_problem), None)
    return [_report("semaphores", now() - started, problem)]


def ask_interpreters(
    proc: Proc,
    looks: Looks,
    renewed: Iterable[int],
    table: ProcessTable,
    now: Callable[[], float],
    *,
    until: float,
    eager: bool,
) -> list[ProbeReport]:
    """Read the locks within the processes `renewed` by a look, and the children that parents among them remember; as
    far as there is time before `until`.
    """
    parents = table.parents
    having_children = {table.root_pid, *parents.values()}
    polling = _polling(looks, MOST_NAPPING if eager else MOST_NAPPING_LIVE)
    asked = _worth_asking(looks, renewed, parents, having_children, polling)
    if not asked:
        return []
    from mpmon.probes.interpreter import Findings, look_inside

    started = now()
    by_parent = _by_parent(parents)
    children = {look.pid: by_parent.get(look.pid, frozenset[int]()) for look in asked}
    questions = {
        look.pid: {
            "sleepers": look.sleepers(),
            "running": look.running | look.in_collective | polling.get(look.pid, frozenset()),
            "looping": (look.running if eager else look.looping) | look.carrying | polling.get(look.pid, frozenset()),
            "is_parent": look.pid in having_children and not look.remembers(children[look.pid]),
        }
        for look in asked
    }
    answers: dict[int, Findings | OSError] = {}
    for first in range(0, len(asked), LEAST):
        if first and now() >= until:
            break
        answers |= in_turn(look_inside, proc, {look.pid: questions[look.pid] for look in asked[first : first + LEAST]})
    for look in asked:
        found = answers.get(look.pid)
        if found is None:
            look.locks_problem = Unknown(table="locks", pid=look.pid, reason=NO_TIME)
            continue
        if isinstance(found, OSError):
            found = Findings(unknown=_unread("locks", look.pid, found))
        look.note_inside(found)
        look.locks, look.awaited, look.locks_problem = found.locks, found.awaited, found.unknown
        if not look.remembers(children[look.pid]):
            look.remembered, look.children = found.remembered, children[look.pid]
    problem = next((look.locks_problem.reason for look in asked if look.locks_problem), None)
    return [_report("locks", now() - started, problem)]


def search_blocks(proc: Proc, looks: Looks, now: Callable[[], float], until: float) -> list[ProbeReport]:
    """For each `with` block that a thread polls to enter, read which threads of all processes are in such a block, as far as
    there is time before `until`.
    """
    wanted = frozenset(name for look in looks.values() for name in look.entering())
    asked = [look for look in looks.values() if look.stacks and not wanted <= look.blocks_asked] if wanted else []
    if not asked:
        return []
    from mpmon.probes.interpreter import blocks_held

    started, problem = now(), None
    for first in range(0, len(asked), LEAST):
        if first and now() >= until:
            problem = NO_TIME
            break
        part = asked[first : first + LEAST]
        answers = in_turn(blocks_held, proc, {look.pid: {"wanted": wanted} for look in part})
        for look in part:
            found = answers.get(look.pid)
            if isinstance(found, tuple):
                look.blocks, look.blocks_asked = found, wanted
    return [_report("blocks", now() - started, problem)]


Loops: TypeAlias = "dict[tuple[int, str, int], Loop | None]"
"""The loop around a place, by process, file and line; `None` if unknown."""

MOST_LOOPS = 4096


def note_loops(proc: Proc, looks: Looks, renewed: Iterable[int], known: Loops) -> None:
    """Note the loops in which threads repeatedly sleep, or wait with a time limit: each place is read once, and noted
    in every look.
    """
    if len(known) > MOST_LOOPS:
        known.clear()
    asked = {pid: places for pid in renewed if (places := {**looks[pid].naps(known), **looks[pid].asks()})}
    new = {
        pid: places for pid, rows in asked.items()
        if (places := tuple(dict.fromkeys(place for row in rows.values() for place in row if (pid, *place) not in known)))
    }  # fmt: skip
    if new:
        from mpmon.probes.loops import loops_around

        answers = in_turn(loops_around, proc, {pid: {"places": places} for pid, places in new.items()})
        for pid, places in new.items():
            found = answers.get(pid)
            known.update(
                {
                    (pid, *place): None if isinstance(found, OSError) or not found else found.get(place)
                    for place in places
                }
            )
    for pid, rows in asked.items():
        looks[pid].note_loops(
            {tid: row for tid, places in rows.items() if (row := _innermost(known, pid, places)) is not None}
        )


def _innermost(known: Loops, pid: int, places: Iterable[tuple[str, int]]) -> Loop | None:
    """The loop around the innermost of these calls that is in one."""
    found = (known.get((pid, *place)) for place in places)
    return next((loop for loop in found if loop is not None), None)


def _by_parent(parents: Mapping[int, int]) -> dict[int, frozenset[int]]:
    """The children of each parent."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for child, parent in parents.items():
        found[parent].add(child)
    return {parent: frozenset(children) for parent, children in found.items()}


def _worth_asking(
    looks: Looks,
    renewed: Iterable[int],
    parents: Mapping[int, int],
    having_children: set[int],
    polling: Mapping[int, frozenset[int]],
) -> list[Look]:
    """Processes with a thread that waits for a lock, runs, naps or stays in a collective; parents; and processes that may have
    forked a waiting process while one of their own threads had the lock.
    """
    fresh = list(renewed)
    asleep = [pid for pid in fresh if looks[pid].sleepers()]
    forkers = sorted({parents.get(pid, 0) for pid in asleep} & looks.keys())
    families = [pid for pid in fresh if looks[pid].stacks and pid in having_children]
    busy = [pid for pid in fresh if looks[pid].running or looks[pid].in_collective or polling.get(pid)]
    return [looks[pid] for pid in dict.fromkeys((*asleep, *forkers, *families, *busy))]


def _polling(looks: Looks, most: int) -> dict[int, frozenset[int]]:
    """Threads that nap, by process, of the `most` lowest pids: many napping processes must not cost more and more."""
    return {pid: looks[pid].polling for pid in sorted(looks)[:most]}


def _unread(table: str, pid: int, problem: OSError) -> Unknown:
    return Unknown(table=table, pid=pid, reason=f"memory cannot be read: {problem.strerror}")


def _report(name: str, seconds: float, problem: str | None) -> ProbeReport:
    return ProbeReport(name=name, ok=problem is None, seconds=round(seconds, 4), problem=problem)
