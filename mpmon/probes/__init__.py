"""Probes query the machine; one file per question. They do not know each other and draw no conclusions.

Guidelines: read only, in bounds, without stopping, writing or waking anybody; every path below a movable /proc; a
failure is a row (`Unknown`, `ProbeReport`), never an exception that reaches the loop; what is not known is `None`.

`files`, `stat`, `status`, `maps`, `fdinfo` and `memory` read what the kernel tells; `door` alone opens and lists files that a
job, or another user, could have put there; `libc` makes the system calls that Python lacks; `machine` finds jobs, `tree`
tells which processes belong to one, and `glance` reads them for the first picture; `processes`, `cgroups`, `kernel`,
`sockets`, `file_locks`, `outsiders`, `stacks`, `native`, `semaphores`, `interpreter`, `ipc`, `flight_recorder`, `nvml`,
`figures` and, on the user's word, `nccl_ras` ask; `elf` reads programs, and `demangler` is a program that translates their
names; `sources` parses what a process runs, for `loops`, which tells what is polled, `polling`, which tells whether a loop
does anything else, `nesting`, which tells what is around a line, and `carried`, which tells what the loops around it carry
from turn to turn; `environment` asks when a user does;
`identity` tells whether a pid is still the same process, and `pidfds` how it ended; `rights` explains a refusal; `own`
accesses mpmon's own paths on file systems with external servers; `syscalls` and `users` are tables.
"""
