"""C and C++ frames of threads, read from outside without stopping anything.

Theory.  For a sleeping thread the kernel reports two registers, the stack pointer and the program counter
(proc_pid_syscall(5)).  C++ needs frame information for its exceptions, and distributions build C with it, too: for each
instruction it gives the offset of the caller's stack pointer from a register of this function, and where the caller's
registers were saved.  That is enough to unwind frame by frame.  The functions a thread sleeps in save all registers that outer
frames need, and in practice each is known when it is needed (measured: 301 threads of Python and torch, no guess).

Where a register is not known the frame is derived, or else searched for on the stack.  Either is accepted only if a call to
this function precedes the return address: a direct call names its target. Each frame records how it was found and what proves
it, and each stack why it ends.

The scheduler's counters are read before and after: if they are equal, the thread has not run and all frames belong to one
moment.  A thread that ran meanwhile is read once more, and then refused.

For a running thread, where the kernel allows perf (`samples`), the kernel copies all registers and the lowest piece of the
stack, and unwinding starts from those.  That is one moment of many: it shows what the thread does, but is not a lasting fact.

Modules: `standing` and `samples` ask the kernel; `space` knows which file lies where in the process, `image` what is in a file,
`cfi` and `dwarf` read frame information; `unwind` goes from a frame to its caller, `lost` finds a caller that frame information
does not lead to, using what `calls` knows of the code; `climb` unwinds the whole stack; `names` makes symbols readable; `look`
does all of it for one process and builds the rows, with the values of `outcomes`; `effort` bounds it; `machines` holds what
differs between processors.

On x86-64 all of it works.  On aarch64 only frame information is used: the kernel does not report the link register, so the
caller of a function that sleeps without having saved it is lost, and the stack says so.  Elsewhere nothing is read.

All input belongs to the job and is untrusted: files are opened through `mpmon.probes.door` and read in small pieces, never
mapped; each number is bounded before it is used; steps are counted, and a stack that exceeds them ends with a reason.  A page of
a library may lie on a server that does not answer, so a look is a call that may hang (`mpmon.probes.aside`).
"""

from mpmon.probes.native.look import native_samples, native_stacks

__all__ = ["native_samples", "native_stacks"]
