"""Servers that pass on what their clients send, such as one of queues: they act when a client asks."""

from __future__ import annotations

from mpmon.diagnosis.edges.connections import is_private, servers
from mpmon.diagnosis.edges.dead import failed
from mpmon.diagnosis.graph import WaitEdge
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def broker(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """For a program that is not Python and waits for requests, that only the job knows, and all of whose clients wait for it, the
    main program among them: its other clients, and a process like these that has failed. Whether that one was a client is not
    known any more, but without it clients may wait for work by right.
    """
    pid = key[0]
    if pid not in job.foreign or key[1] != pid or job.wait_state(key).kind is not Wait.POLL:
        return None
    watched = [item for item in job.waits_on(key) if item.kind == "socket"]
    served = [item for item in watched if not item.listens]
    near = {row.pid for item in served for row in job.holders.get(item.peer or "", ())}
    if len(near) < FEWEST or not all(is_private(job, item) for item in watched if item.listens):
        return None
    gone = {row.pid: row for client in near for row in failed(job, client)}
    asking = dict.fromkeys(client for item in served for client in servers(job, item, key))
    if not gone or not any(job.role(client[0]).kind == "main" for client in asking):
        return None
    pids = ", ".join(map(str, sorted(near)))
    return WaitEdge(
        (*asking, *gone.values()),
        idle_s=min(job.now - job.stands_since(client) for client in asking),
        words="a request of another client",
        evidence=f"clients of {job.name(pid)}: pid {pids}",
    )


FEWEST = 2
"""One passes on nothing that has a single client."""
