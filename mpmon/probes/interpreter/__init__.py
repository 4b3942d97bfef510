"""What CPython itself knows about its threads, read from the memory of a process: their calls, which thread holds which
lock in which frame, and which thread waits for which.

Theory. `with lock:` leaves the bound `__exit__` of the lock on the value stack of its frame until the block ends. The
exception table says how deep that stack must be at the frame's current instruction, so everything below that depth is
alive, and a lock found there is held: no stale slots, no guess (Python 3.10 keeps the depths in the frame's block
stack). `Condition.wait` releases its lock meanwhile, and so may a function that looks up `release`: the latter leaves
the lock unproved, and so does another thread that may have taken it by a bare `acquire()` since. An `RLock` names its
owner itself. A block may lead to the lock by way of a generator or an `ExitStack`, or of an object whose `__exit__`
releases it. A lock taken by a bare `acquire()` leaves no trace: it may be held by a call that leads to it, if no other
thread's calls take or release locks by hand.

A `for` loop keeps its iterator on the same stack: if its position has advanced, the loop makes progress.

A lock is identified by the word its waiters sleep on, the same address that the kernel shows for the system call, so
the two kinds of facts can be joined. From Python 3.14 on a lock is one byte and waiters sleep elsewhere; there the
awaited lock is the one on top of the waiter's value stack.

A task of an event loop leads to its coroutine, the coroutine to the call it awaits, and so on to a future; the asyncio
functions that await the future show what it stands for.

For a loop that may never end, digests of everything reachable from its variables show whether anything there changes.

Modules: `runtime` finds the interpreter in a process, `layouts` holds the offsets of its fields (tables for 3.10 to
3.12; what the interpreter publishes from 3.13 on, checked, with the rest from a table), `walk` follows threads and
frames, `codes` decodes code objects and `lines` their line tables; `pages` reads memory, `objects` Python objects,
`tables` and `hashes` find a key of a dictionary, `modules` the names of a module. `reader` makes the rows of stacks,
with thread `names`, and `values` of variables, which `printing` formats as py-spy does. `frames` knows what is on a
call's value stack, `blocks` in which `with` blocks it is, `held` which locks it holds, `matching` what it matches
with a regular expression; `contents` follows variables, and `things` reads the visible state of an object; `groups`
knows the process groups of torch; `children` and `queues` find multiprocessing objects among those `reachable` from
variables. `look` is one look at a process: `inside` has its threads, `uses` makes the rows of locks, `results` those
of awaited threads, `rounds` tells how far loops are. `tasks` makes the rows of tasks, `coroutines` follows
suspended coroutines, `awaits` finds out what the innermost one awaits, `chained` and `scheduled` where a future gets
its result from and which loop has to run for it; `deques` reads what lies in a deque.

Nothing is stopped or written.  Every pointer is distrusted: a failed read or an unexpected type ends the search of that
thread, reads are counted, and a clock bounds the whole.  A thread that ran meanwhile is reported as not exact.
"""

from mpmon.probes.interpreter.blocks import blocks_held
from mpmon.probes.interpreter.look import Findings, look_inside

__all__ = ["Findings", "blocks_held", "look_inside"]
