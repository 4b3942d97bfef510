"""Which processes make up the job, and how much each of their threads ran.

The job is the root's tree: children, their children, and what belonged to it once.
A process that was seen in the tree stays in it when its parent dies and it is re-parented, or when it changes session.
Processes that were re-parented before mpmon came are taken in when they lead nowhere else: same process group as the
root, started after it, and their parent is a reaper in another session (init or a subreaper).  So are daemons that left the
group too, as soon as somebody waits for a pipe or semaphore that only the job can have given them.

/proc is listed only when the kernel tells that somebody has come or gone, only new pids are examined, and only processes
that have run since the last round are read again, as their clocks tell.  So a round costs one clock a process, and of those
that ran one `stat` and one `schedstat` a thread (measured: 0.8 µs, 4.5 µs and 0.9 µs).
Everything that does not change during a process's life is read once.

Modules: `table` knows who belongs to the job, `member` reads one process from round to round, `threads` one thread, `traits` what
seldom changes.
"""

from mpmon.probes.processes.table import ProcessTable

__all__ = ["ProcessTable"]
