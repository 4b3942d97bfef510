"""Probes ask the machine; one file a question. They know nothing of each other and have no opinion.

Guidelines: read only, in bounds, without stopping, writing or waking anybody; every path below a movable /proc; a
failure is a row (`Unknown`, `ProbeReport`), never an exception that reaches the loop; what is not known is `None`.

`files` and `memory` read; `processes`, `kernel`, `sockets` and `stacks` ask; `rights` explains a refusal; `syscalls` is
a table.
"""
