"""Workers that crashed beside one with which their master now waits in vain.

A master that hears of such an end (an end of file, an exit code) and forgets the work it had given away goes on with the
others, until it waits for a result that nobody computes, and they wait for work.  Two who only listen to each other have
nothing else that would say what is missing.
"""

from __future__ import annotations

from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Ending, Knot
from mpmon.diagnosis.needs.dead import crashed_relatives
from mpmon.diagnosis.waits import Wait

_LISTENS = frozenset({Wait.QUEUE_GET, Wait.PIPE_READ, Wait.SOCKET})


def crashed_mates(knot: Knot) -> list[int]:
    """Where all of a cycle wait for each other's messages: children of one of them, of the kind of another child of it in the
    cycle, that crashed.
    """
    if knot.ending is not Ending.CYCLE or not all(_listens(knot, key) for key in knot.roots):
        return []
    case, pids = knot.case, dict.fromkeys(pid for pid, _ in knot.roots)
    masters = dict.fromkeys(parent for pid in pids if (parent := case.processes[pid].ppid) in pids)
    kinds = {case.role(pid).kind for pid in pids if case.processes[pid].ppid in masters}
    children = (pid for master in masters for pid in crashed_relatives(case, master) if _parent(knot, pid) == master)
    return [pid for pid in children if case.role(pid).kind in kinds]


def _listens(knot: Knot, key: ThreadKey) -> bool:
    blocked, need = knot.case.blocked.get(key), knot.graph.node(key).need
    writes, held = blocked is not None and blocked.writes, need is not None and need.held
    return knot.standing(key).kind in _LISTENS and not writes and not held


def _parent(knot: Knot, pid: int) -> int | None:
    """Of one that ended; `None` for a program that was only called, whose exit status is its answer."""
    process, row = knot.case.processes.get(pid), knot.case.remembered.get(pid)
    if process:
        return process.ppid
    return row.pid if row and row.name else None
