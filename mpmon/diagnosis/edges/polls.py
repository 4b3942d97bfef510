"""Waits of polling threads: what their loop tests tells what they wait for, see `waits.polled`."""

from __future__ import annotations

from collections.abc import Callable

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.edges.servants import busy_threads, executor_threads, pool_workers
from mpmon.diagnosis.graph import WaitEdge
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.libraries.rows import PollRow
from mpmon.diagnosis.progress.ticking import only_beats
from mpmon.diagnosis.waits import Wait


def polled_work(case: Case, key: ThreadKey, row: PollRow) -> WaitEdge | None:
    """Children or threads that it polls for their end, tasks for their completion, an event for being set: any of them
    may be the one. `None` if it tests something else, or there is none.
    """
    targets = _WHOSE.get(row.kind, _whose_result)(case, key)
    others = tuple(target for target in dict.fromkeys(targets) if target != key and not only_beats(case, target))
    return WaitEdge(others, words=row.words, evidence=_evidence(case, key)) if others else None


def _whose_end(case: Case, key: ThreadKey) -> list[ThreadKey]:
    children = [(pid, pid) for pid in case.helpmates(key[0])]
    return children or [other for other in case.others_at_work(key) if other[1] != other[0]]


def _whose_sign(case: Case, key: ThreadKey) -> list[ThreadKey]:
    """Threads and children; a signal from a process above it would reach a handler."""
    return [*case.others_at_work(key), *((pid, pid) for pid in case.helpmates(key[0]))]


def _whose_result(case: Case, key: ThreadKey) -> list[ThreadKey]:
    return [*busy_threads(case, pool_workers(case, key[0])), *executor_threads(case, key)]


_WHOSE: dict[Wait, Callable[[Case, ThreadKey], list[ThreadKey]]] = {
    Wait.JOIN_PROCESS: _whose_end, Wait.CONDITION: _whose_sign,
}  # fmt: skip


def _evidence(case: Case, key: ThreadKey) -> str:
    tests = case.stacks[key].tests or ()
    asked = ", ".join(name if name.startswith(".") else f"{name}()" for name in tests)
    return f"pid {key[0]} polls at {case.place(key)}: its loop exits only on what {asked} returns"
