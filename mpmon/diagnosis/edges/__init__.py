"""From the call a thread waits in to the targets it waits for: one function per kind of wait, in the table `by_kind.EDGES`;
`node.WAYS` are the questions that come before it.

Every function returns the targets that could end the wait. Too many targets make mpmon cautious (any of them may end the
wait), too few make it wrong, so the set is narrowed only by facts: who holds the other end, who is idle, who has exited.

Modules: `node` (what a thread is in the graph), `leaves` (what goes on by itself), `missing` (why nobody could help),
`servants` (DataLoader, pools), `messages` (pipes, queues, sockets), `semaphores` (locks and permits between processes),
`named_objects` (those of System V), `file_locks`, `blocks` (locks of a program's own making), `taken` (items that another
process took), `connections` (the server of a socket, a manager's clients), `threads` (inside one process), `natives` (native
threads), `ends` (joins, exit), `output` (of a subprocess), `polls` (conditions that a polling loop tests), `ranks`
(collectives, rendezvous, keys of the store), `file_servers` (file systems that do not respond), `tasks` (user code that any
library runs), `loops` (asyncio tasks), `remote` (torch's RPC), `dead` (exited processes), `hidden` (unreadable processes).
"""

from mpmon.diagnosis.edges.node import node

__all__ = ["node"]
