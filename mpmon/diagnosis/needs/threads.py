"""Waits inside of one process: locks, conditions, native mutexes, the GIL."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.graph import Need, Nobody
from mpmon.diagnosis.history import ThreadKey


def gil_owner(case: Case, key: ThreadKey) -> ThreadKey | None:
    """Who keeps the GIL from a thread that asks for it: a lock of its own, with a deadline of milliseconds (take_gil)."""
    blocked = case.blocked.get(key)
    asks = blocked is not None and blocked.syscall == "futex" and blocked.wakes_at is not None
    return case.gil_owner(key) if asks else None


def gil_need(case: Case, owner: ThreadKey) -> Need:
    """The owner of the GIL must let it go."""
    name = case.thread_name(owner)
    evidence = f"py-spy: thread {name} of pid {owner[0]} owns the GIL"
    return Need((owner,), every=True, exact=True, words=f"the GIL, which thread {name} holds", evidence=evidence)


def native_mutex(case: Case, key: ThreadKey) -> Need | None:
    """A pthread mutex by its owner word; any other private futex by the threads of the process."""
    owner = next((item.owner_tid for item in case.waits_on(key) if item.owner_tid), None)
    if owner is None:
        return other_threads(case, key)
    if case.past((key[0], owner)):
        return Need(
            ((key[0], owner),), every=True, exact=True, words="a native mutex", evidence=f"its owner is thread {owner}"
        )
    why = f"the native mutex is owned by thread {owner}, which is no thread of this process: taken before the fork"
    return Need((Nobody(why, (key[0],)),), exact=True, words="a native mutex")


def other_threads(case: Case, key: ThreadKey) -> Need | None:
    """A lock, condition or queue between threads: any other Python thread of the process that is not idle itself."""
    words = case.standing(key).words
    others = [other for other in case.threads(key[0]) if other != key and not case.standing(other).idle]
    if others:
        return Need(tuple(others), words=words)
    return Need(
        (Nobody("no other Python thread of this process is left that could end the wait", (key[0],)),), words=words
    )
