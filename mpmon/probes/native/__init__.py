"""C and C++ frames of threads, read from outside without stopping anything.

Theory.  Of a thread that sleeps the kernel tells two registers, the stack pointer and the program counter
(proc_pid_syscall(5)).  There is frame information because C++ needs it for its exceptions, and distributions build C with it,
too: it tells for each instruction how far the caller's stack pointer is from a register of this function, and where the
caller's registers were saved.  So one climbs from frame to frame.  The functions a thread sleeps in save all registers that outer
ones need, and in practice each is known when it is needed (measured: 301 threads of Python and torch, no guess).

Where a register is not known a frame is derived, or else searched for on the stack.  Either is accepted only if a call to
this function precedes the return address: a direct call names its target. Each frame says how it was found and what proves
it, and each stack why it ends.

The counters of the scheduler are read before and after: if they are the same, the thread has not run and all frames are
of one moment.  One that ran is read once more, and then refused.

Of a thread that runs the kernel copies all registers and the lowest piece of the stack where it allows perf (`samples`), and
the climb begins with those.  That is one moment of many: it shows what the thread does, but is not a lasting fact.

Modules: `standing` and `samples` ask the kernel; `space` knows which file lies where in the process, `image` what is in a file,
`cfi` and `dwarf` read frame information; `unwind` goes from a frame to its caller, `lost` finds one to which nothing leads, by
what `calls` says of the code; `climb` goes all the way; `names` makes symbols readable; `look` does all of it for one process
and makes the rows, with the values of `outcomes`; `effort` bounds it; `machines` holds what differs from one processor to the
other.

On x86-64 all of it works.  On aarch64 there is frame information alone: the kernel does not tell the link register, so a
function that sleeps without having saved it loses its caller, and the stack says so.  Elsewhere nothing is read.

All of what is read is the job's: files are asked for through `mpmon.probes.door` and read in small pieces, never mapped;
each number is bounded before it is used; steps are counted, and what exceeds them ends with a reason.  A page of a library may
lie on a server that does not answer, so a look is a call that may hang (`mpmon.probes.aside`).
"""

from mpmon.probes.native.look import native_samples, native_stacks

__all__ = ["native_samples", "native_stacks"]
