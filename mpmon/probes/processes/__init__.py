"""Which processes make up the job, and how much each of their threads ran.

The job is the root's tree: children, their children, and processes that once belonged to it.
A process that was seen in the tree stays in it when its parent dies and it is re-parented, or when it changes session.
Processes that were re-parented before mpmon started are added if they fit no other tree: same process group as the
root, started after it, and their parent is a reaper in another session (init or a subreaper).  Daemons that also left
the group are added as soon as a process waits for a pipe or semaphore that only the job can have given them.

/proc is listed only if the kernel shows that processes have started or ended, only new pids are examined, and only
processes that have run since the last round, as their clocks show, are read again.  So a round reads one clock per
process, and for a process that ran one `stat` and one `schedstat` per thread (measured: 0.8 µs, 4.5 µs and 0.9 µs).
Everything that does not change during a process's life is read once.

Modules: `table` knows which processes belong to the job, `member` reads one process from round to round, `threads` its
threads, `traits` what seldom changes.
"""

from mpmon.probes.processes.table import ProcessTable

__all__ = ["ProcessTable"]
