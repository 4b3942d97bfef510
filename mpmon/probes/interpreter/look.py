"""One look at the memory of one process: its locks, whom its threads wait for, its children, and how far its loops are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from mpmon.model import JoinTarget, KnownChild, LockUse, Unknown
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.children import Children
from mpmon.probes.interpreter.inside import Inside
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.results import Results
from mpmon.probes.interpreter.rounds import Rounds
from mpmon.probes.interpreter.runtime import NoInterpreter, runtime_of
from mpmon.probes.interpreter.tids import Tids
from mpmon.probes.interpreter.uses import LockUses
from mpmon.probes.memory import Memory
from mpmon.probes.namespaces import Namespace

_MOVED = re.compile(rb"rchar: ([0-9]{1,19})\nwchar: ([0-9]{1,19})\n")
"""proc_pid_io(5), which exists for each thread too."""


class Findings(msgspec.Struct):
    """What one look at one process found."""

    locks: tuple[LockUse, ...] = ()
    awaited: tuple[JoinTarget, ...] = ()
    remembered: tuple[KnownChild, ...] = ()
    unknown: Unknown | None = None
    """Why the result is incomplete."""
    turns: Mapping[int, tuple[tuple[int, ...], ...]] = {}
    """`Stack.turns` of the `running`, by thread."""
    contents: Mapping[int, tuple[tuple[int, int, int], ...]] = {}
    """`Stack.contents` of the `looping`, by thread."""
    counts: Mapping[int, tuple[tuple[int, int, int, dict[str, int]], ...]] = {}
    """`Stack.counts` of the `looping`, by thread."""
    turning: Mapping[int, tuple[int, ...]] = {}
    """`Stack.turning` of the `looping`, by thread."""
    matching: Mapping[int, int] = {}
    """`Stack.matching` of the `looping`, by thread."""
    moved: Mapping[int, tuple[int, int]] = {}
    """`Stack.read` and `Stack.wrote` of the `looping`, by thread."""


@may_hang
def look_inside(
    proc: Proc,
    pid: int,
    sleepers: Mapping[int, str],
    *,
    running: Collection[int] = (),
    looping: Collection[int] = (),
    is_parent: bool = True,
) -> Findings:
    """Locks and awaited threads of one process, the loop positions of its `running` threads, what the variables of its
    `looping` threads lead to, and, for a parent, the children it remembers.

    `sleepers` are the threads that wait in a private futex, with the id of the word they sleep on.
    """
    try:
        tids = Tids(proc, pid)
        with Memory(proc, pid) as memory:
            inside = Inside(memory, runtime_of(proc, pid, memory), tids, sleepers)
            inside.read()
            found = found_in(inside, running=running, looping=looping, is_parent=is_parent)
        ran = tids.ran()
    except NoInterpreter as reason:
        return Findings(unknown=Unknown(table="locks", pid=pid, reason=str(reason)))
    except OSError as problem:
        reason = f"memory cannot be read ({(problem.strerror or 'failed').lower()})"
        return Findings(unknown=Unknown(table="locks", pid=pid, reason=reason))
    return msgspec.structs.replace(
        found,
        locks=tuple(msgspec.structs.replace(row, exact=False) if row.tid in ran else row for row in found.locks),
        remembered=tuple(_seen_from_here(found.remembered, Namespace(proc, pid))),
        moved={tid: counts for tid in looping if (counts := _moved(proc, pid, tid)) is not None},
    )


def found_in(inside: Inside, *, running: Collection[int], looping: Collection[int], is_parent: bool) -> Findings:
    """Everything that the memory of a process tells, with children by their pids there."""
    uses, results, rounds = LockUses(inside), Results(inside), Rounds(inside)
    uses.read()
    results.read()
    uses.guess()
    remembered = _remembered(inside) if is_parent else ()
    uses.note_entering(looping)
    return Findings(
        tuple(uses.rows),
        tuple(results.rows),
        remembered,
        Unknown(table="locks", pid=inside.pid, reason=inside.problem) if inside.problem else None,
        rounds.turns(running),
        rounds.contents(looping),
        rounds.counts,
        rounds.turning(looping),
        rounds.matching(looping),
    )


def _remembered(inside: Inside) -> tuple[KnownChild, ...]:
    children = Children(inside.objects, inside.pid)
    for frames in inside.stacks.values():
        children.search(frames)
    with suppress(Torn):
        children.search_started(inside.runtime)
    return children.found


def _moved(proc: Proc, pid: int, tid: int) -> tuple[int, int] | None:
    """Bytes that a thread got from read(2) etc., and passed to write(2) etc.: proc_pid_io(5)."""
    try:
        found = _MOVED.search(proc.read(pid, "task", tid, "io"))
    except OSError:
        return None
    return (int(found[1]), int(found[2])) if found else None


def _seen_from_here(rows: Iterable[KnownChild], namespace: Namespace) -> Iterator[KnownChild]:
    """Children by their pids in mpmon's namespace; a reaped child has none any more, and keeps the number it had."""
    for row in rows:
        child = namespace.child(row.child) or (None if row.returncode is None else row.child)
        if child is not None:
            yield msgspec.structs.replace(row, child=child)
