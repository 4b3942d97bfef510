"""What CPython itself knows about its threads, read from the memory of a process: their calls, which thread holds which lock
in which frame, and which thread waits for which.

Theory.  `with lock:` leaves the bound
`__exit__` of the lock on the value stack of its frame until the block ends.  The exception table says how deep that stack
must be at the instruction a frame stands at, so everything below that depth is alive, and a lock found there is held: no
stale slots, no guess (Python 3.10 keeps the depths in the frame's block stack). `Condition.wait` releases its lock meanwhile,
and so may a function that looks up `release`: in the latter case nothing is proved, nor for a lock that another thread may
have taken by a bare `acquire()` since. An `RLock` names its owner itself.  A lock taken by a bare `acquire()` leaves no trace
and is not reported.

A `for` loop keeps its iterator on the same stack: if its position has advanced, the loop makes progress.

A lock is known by the word its waiters sleep on, the same address the kernel shows for the system call, so that the facts
of the two join.  From Python 3.14 on a lock is one byte and waiters sleep elsewhere; there the awaited lock is the one on
top of the waiter's value stack.

A task of an event loop leads to its coroutine, that one to the call it awaits, and so on to a future; the asyncio functions
that await it show what the future stands for.

For a loop that may never end, digests of everything reachable from its variables show whether anything changes there.

Modules: `runtime` finds the interpreter in a process, `layouts` holds where its fields lie (tables for 3.10 to 3.12; what
the interpreter publishes from 3.13 on, checked, with the rest from a table), `walk` goes along threads and frames, `codes`
decodes code objects and `lines` their tables of lines; `objects` reads Python objects, `modules` finds those of a module.
`reader` makes the rows of stacks, with `names` of threads, and `values` of variables, which `printing` puts into py-spy's words.
`frames` knows what is on a call's value stack, `locks` makes the rows of who holds what; `contents` follows variables, and
`things` knows what there is to see of an object; `groups` knows the process groups of torch; `children` and `queues` find
objects of multiprocessing among those that are `reachable` from variables.  `tasks` makes the rows of tasks, `coroutines`
follows those that are suspended, and `awaits` tells what the innermost one awaits.

Nothing is stopped or written.  Every pointer is distrusted: a read that fails or a type that does not fit ends the search
of that thread, reads are counted, and a clock bounds the whole.  A thread that ran meanwhile is reported as not exact.
"""

from mpmon.probes.interpreter.locks import Findings, look_inside

__all__ = ["Findings", "look_inside"]
