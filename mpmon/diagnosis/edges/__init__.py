"""From the call a thread waits in to the targets it waits for: one function per kind of wait, in the table `by_kind.EDGES`;
`node.WAYS` are the questions that come before it.

Every function returns the targets that could end the wait. Too many targets make mpmon cautious (any of them may end the
wait), too few make it wrong, so the set is narrowed only by facts: who holds the other end, who is idle, who has exited.

Modules: `node` (what a thread is in the graph), `leaves` (what goes on by itself), `missing` (why nobody could help);
of one process: `threads` (locks, conditions), `gil`, `imports`, `natives` (native threads), `loops` (asyncio tasks), `tasks`
(user code that any library runs);
between processes: `messages` (what is read from pipes, queues, sockets), `other_ends` (who has their other end), `items` (what
a queue's writers keep), `taken` (what another process took), `connections` (the server of a socket), `serving` (its threads),
`managers`, `semaphores` (locks and permits), `named_objects` (those of System V), `file_locks`, `blocks` (locks of a program's
own making), `polls` (conditions that a polling loop tests), `answers` (who may change them), `file_servers` (file systems that
do not respond);
of processes: `ends` (joins, exit), `supervisors` (waits for a signal), `output` (of a subprocess), `dead` (exited ones),
`deaths` (how and why), `numbered` (those that left no trace), `replaced` (a pool's), `servants` (pools), `loaders`
(DataLoader), `hidden` (unreadable ones);
of ranks: `ranks` (collectives), `rendezvous` (and keys of the store), `remote` (torch's RPC).
"""

from mpmon.diagnosis.edges.node import node

__all__ = ["node"]
