"""Children that ended and left no trace, as the numbers in the names of their siblings show."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mpmon.diagnosis.edges.dead import dead_relatives, remembered
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KnownChild

_NUMBERED = re.compile(r"(?:\w*Process-(?:[0-9]+:)*|[^0-9]+)([0-9]{1,18})")
"""Multiprocessing's default names: `ForkProcess-2` is its parent's second child (process.py); or a program's own numbered
names.
"""


POOL_NUMBERED = re.compile(r"\w*PoolWorker-(?:[0-9]+:)*([0-9]{1,18})")
"""The same for the workers of a Pool (pool.py)."""


def forgotten_child(job: JobState, pid: int, numbered: re.Pattern[str] = _NUMBERED) -> int | None:
    """The pid of a sibling that ended and left no trace: the numbers in the siblings' names show that one is missing, and
    exactly one pid between its neighbours' pids is unused; or the one next to a neighbour's, where others were forked in a row.
    Where none is missing, a program's own names may have begun with 0.
    """
    parent = job.starter(pid)
    family = _family(job, parent)
    numbers = _numbers(family, numbered)
    number = missing_number(job, pid, numbered)
    if number is None and _may_begin_with_0(family, numbers):
        number = 0
    if number is None:
        return None
    taken = {*job.processes, *(thread.tid for thread in job.snapshot.threads)}
    between = range(numbers.get(number - 1, parent) + 1, numbers[number + 1])
    free = [candidate for candidate in between[-MOST_BETWEEN:] if candidate not in taken]
    if len(free) > 1 and any(numbers.get(one + 1) == child + 1 for one, child in numbers.items()):
        before = numbers.get(number - 1)
        free = [candidate for candidate in free if candidate == (before + 1 if before else numbers[number + 1] - 1)]
    return free[0] if len(free) == 1 else None


def _may_begin_with_0(family: list[KnownChild], numbers: dict[int, int]) -> bool:
    """The names are the program's own, and count from 1 without a gap."""
    own = not any(_OF_LIBRARY.match(row.name) for row in family) and _count_alike(family)
    return own and bool(numbers) and len(numbers) == len(family) and set(numbers) == set(range(1, len(numbers) + 1))


def misses_sibling(job: JobState, pid: int) -> bool:
    """The numbers in the siblings' names show that one sibling has ended and left no trace."""
    return missing_number(job, pid, _NUMBERED) is not None


def missing_number(job: JobState, pid: int, numbered: re.Pattern[str]) -> int | None:
    """The number of the one sibling that is missing from the numbered names."""
    family = _family(job, job.starter(pid))
    numbers = _numbers(family, numbered)
    highest = max(numbers, default=0)
    # A name may contain any number; below an arbitrary high one, more than one number is missing.
    missing = set(range(1, highest)) - set(numbers) if highest <= len(numbers) + 1 else set[int]()
    known = len(missing) == 1 and len(numbers) == len(family) and pid in numbers.values() and _count_alike(family)
    # All children of one parent are counted together, including those with unknown names.
    return missing.pop() if known and not _unnamed(job, job.starter(pid), family) else None


def _family(job: JobState, parent: int) -> list[KnownChild]:
    """The children that its program remembers, without those that a library started for itself, such as a manager."""
    rows = (row for row in job.snapshot.remembered if row.pid == parent)
    return [row for row in rows if row.child not in job.roles or job.role(row.child).kind not in HELPERS]


def _count_alike(family: list[KnownChild]) -> bool:
    """The names share one counter: multiprocessing's own, or that of a single base name."""
    names = {row.name.rstrip("0123456789") for row in family}
    return len(names) == 1 or all(_OF_LIBRARY.match(name) for name in names)


_OF_LIBRARY = re.compile(r"\w*(Process|PoolWorker)-")


def _numbers(family: Iterable[KnownChild], numbered: re.Pattern[str] = _NUMBERED) -> dict[int, int]:
    """Children of one parent: pids by the numbers in their names."""
    return {int(found[1]): row.child for row in family if (found := numbered.fullmatch(row.name))}


def ended_relatives(job: JobState, pid: int) -> list[int]:
    """Children and siblings that ended, reaped or not, except called programs that were reaped; empty if the numbers in the
    names show that yet another one left no trace.
    """
    if any(_has_forgotten_one(job, parent) for parent in (pid, job.starter(pid))):
        return []
    zombies = [gone.pid for gone in dead_relatives(job, pid, certain=False)]
    return list(dict.fromkeys((*zombies, *(row.child for row in remembered(job, pid) if row.name))))


def _has_forgotten_one(job: JobState, parent: int) -> bool:
    """The children's highest number exceeds the count of numbered names plus that of children with unknown names."""
    family = _family(job, parent)
    numbers = _numbers(family)
    return max(numbers, default=0) - len(numbers) > len(_unnamed(job, parent, family))


def _unnamed(job: JobState, parent: int, family: Iterable[KnownChild]) -> list[int]:
    """Children made by multiprocessing whose names are unknown."""
    named = {row.child for row in family}
    children = (child for child in job.clients.get(parent, ()) if child not in named)
    return [child for child in children if job.role(child).kind not in (*HELPERS, "subprocess")]


MOST_BETWEEN = 1000
"""At most this many pids between two siblings' pids are examined."""
