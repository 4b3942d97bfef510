"""Workers that crashed, while their surviving siblings and the master now wait for each other in vain.

A master that notices a worker's death (an end of file, an exit code) and drops the work it had handed out continues with
the other workers, until it waits for a result that nobody computes while they wait for work. When two processes wait for
each other's messages, no other evidence shows what is missing.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import crashed_relatives
from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def crashed_mates(stuck: StuckSet) -> list[int]:
    """If all members of a cycle wait for each other's messages: crashed children of one of them, of the same kind as
    another of its children in the cycle.
    """
    if stuck.ending is not Ending.CYCLE or not all(_listens(stuck, key) for key in stuck.at_end):
        return []
    job, pids = stuck.job, dict.fromkeys(pid for pid, _ in stuck.at_end)
    masters = dict.fromkeys(parent for pid in pids if (parent := job.starter(pid)) in pids)
    kinds = {job.role(pid).kind for pid in pids if job.starter(pid) in masters}
    children = (pid for master in masters for pid in crashed_relatives(job, master) if _parent(stuck, pid) == master)
    return [pid for pid in children if job.role(pid).kind in kinds]


def _listens(stuck: StuckSet, key: ThreadKey) -> bool:
    edge = stuck.graph.node(key).edge
    return edge is not None and edge.of_data


def _parent(stuck: StuckSet, pid: int) -> int | None:
    """The parent of a process that ended; `None` for a program that was only called, whose exit status is its answer."""
    row = stuck.job.remembered.get(pid)
    if pid in stuck.job.processes:
        return stuck.job.starter(pid)
    return row.pid if row and row.name else None
