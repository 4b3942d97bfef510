"""What each thread is blocked in, from the kernel, without stopping any process.

proc_pid_syscall(5) gives the call and its arguments, so a futex word, a descriptor, a poll set or a child can be named. A
descriptor becomes an object with the same id in all processes (a pipe by its inode), and every process that holds an end of
it is listed, because those are the ones that could wake the sleeper. A futex word in shared memory becomes (device, inode,
offset), so the same semaphore is one object in all processes, although it is unlinked and mapped at different addresses.

Rights: anyone may read `stat` and `sched`; the same user `wchan`, `fd` and `maps` (PTRACE_MODE_READ); `syscall` and
memory need the right to attach (PTRACE_MODE_ATTACH), which Yama 1 grants only to ancestors.
What cannot be read is an `Unknown`; the rest still counts.

Modules: `threads` makes the rows, `call` reads one system call with its arguments, `holdings` what a process has open
and mapped, `waited` names the objects a call waits on, `clocks` converts the kernel's times to seconds since the epoch.
"""

from mpmon.probes.kernel.threads import KernelLook

__all__ = ["KernelLook"]
