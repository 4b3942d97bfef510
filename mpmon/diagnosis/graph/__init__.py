"""The wait-for graph: which threads can still make progress, which are stuck, and who blocks them.

Theory of operation.

A node is a thread.  It is *live* (it makes progress, or will by itself), a *leaf* (it stands still and waits for nobody
in the job: asleep, spinning, stopped, in file I/O, in a debugger), *idle* (a server thread without a request), or it
*waits*.  A waiting node has a wait edge with one or more targets: ANY of them can end the wait (a queue has many producers),
or ALL must act (every child has to end, every rank has to enter).  A target is a thread, an exited process, nobody at all,
or a party external to the job.

The nodes that can progress are the smallest set that holds the live nodes and every waiting node whose edge it satisfies.
The remaining nodes form the *closed* set; they are stuck, since no member can move before another member has.  The argument
needs no time limit and no majority vote.

Of the closed set reached from the goal (the thread whose progress counts), the root blockers are the first of: nobody (a lock
holder that no longer exists); processes that have certainly ended; leaves (those that only poll if none stands still), and
idle holders of what a member needs, a lock or the only end of a stream that could be read; a cycle of exact edges; processes
that may have ended; external parties; tasks that a library runs, of which one that waits for another does not count; members
that only wait for idle threads; a cycle of assumed edges; and, if edges say only that *any* target could help, the waiters
whose helper is unknown.

A root blocker that polls shows no edge, as what it looks for is not known.  If a thread or a child that might bring it is in a
closed set of its own, in which the poller is not, that set's root blockers are meant.  Threads that stand beside (a heartbeat,
one that takes jobs or waits until it is told to stop) are root blockers only if nobody else is.

Every edge has a *basis*, the source that names its targets (the kernel, a ledger, memory, frames), and its evidence in words
that a person can check.  An edge whose targets are merely the candidates that could help is *assumed*; any other is *exact*.

- `nodes`: nodes, edges and their targets; `wait_graph`: the graph; `components`: threads that wait for each other.
"""

from mpmon.diagnosis.graph.nodes import (
    Absent,
    Basis,
    Closed,
    Ending,
    Exited,
    External,
    Node,
    NoReleaser,
    Status,
    Target,
    WaitEdge,
)
from mpmon.diagnosis.graph.wait_graph import Graph

__all__ = [
    "Absent",
    "Basis",
    "Closed",
    "Ending",
    "Exited",
    "External",
    "Graph",
    "NoReleaser",
    "Node",
    "Status",
    "Target",
    "WaitEdge",
]
