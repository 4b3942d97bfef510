"""Probes query the machine; one file per question. They do not know each other and draw no conclusions.

Guidelines: read only, in bounds, without stopping, writing or waking anybody; every path below a movable /proc; a
failure is a row (`Unknown`, `ProbeReport`), never an exception that reaches the loop; what is not known is `None`.

`files`, `stat`, `status`, `maps`, `fdinfo` and `memory` read what the kernel tells; `door` alone opens, looks at and lists
what a job, or a neighbour of it, could have put there; `libc` makes the system calls that Python lacks; `machine` finds
jobs, `tree` tells who belongs to one, and `glance` sees it for the first picture; `processes`, `cgroups`, `kernel`,
`sockets`, `file_locks`, `outsiders`, `stacks`, `native`, `semaphores`, `interpreter`, `ipc`, `flight_recorder`, `nvml`, `figures`
and, on the user's word, `nccl_ras` ask;
`elf` reads programs, and `demangler` is a program that translates their names;
`environment` asks when a user does; `identity` tells whether a pid still is who it was, and `pidfds` how it ended; `rights`
explains a refusal; `own` reaches mpmon's own paths where others serve them; `syscalls` and `users` are tables.
"""
