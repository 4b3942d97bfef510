"""Probes ask the machine; one file a question. They know nothing of each other and have no opinion.

Guidelines: read only, in bounds, without stopping, writing or waking anybody; every path below a movable /proc; a
failure is a row (`Unknown`, `ProbeReport`), never an exception that reaches the loop; what is not known is `None`.

`files`, `maps` and `memory` read; `processes`, `cgroups`, `kernel`, `sockets`, `outsiders`, `stacks`, `semaphores`,
`interpreter` and `flight_recorder` ask; `rights` explains a refusal; `syscalls` is a table.
"""
