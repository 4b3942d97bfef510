"""The queue shim: it records in shared memory what one process of a job does with its queues and its CUDA memory.

From outside, mpmon sees that a queue is full and which process waits; it does not see what the queue is for, which line puts
into it, or whose memory a consumer keeps.  The shim adds these names.  It runs inside the job, so:

- it needs the standard library only, and imports nothing of mpmon but this package;
- it starts no thread, opens no socket, never waits for a lock, and never raises into the job;
- items of a queue stay the same, byte for byte;
- the job need not answer anything: the file can be read while the job is stopped, hangs with the GIL held, or is dead.

Ways to turn it on:

- `mpmon run -- CMD`: for CMD and everything it starts;
- `import mpmon.shim; mpmon.shim.install()` at the top of the main program: for it and its `multiprocessing` children;
- where mpmon is installed in the job's environment, `MPMON_SHIM=1` in its environment variables is enough.

Modules:
`boot` waits for the modules to hook, and `startup/` makes interpreters call it; `queues` and `storages` are the hooks,
`patches` installs and removes them; `records`, `sites`, `transfers` and `writer` write what the hooks see, `layout` is the
format of the file, `places` its location; `whose` distinguishes the job's code and exceptions from the shim's; `rights` and
`dumps` let mpmon look at stacks.
"""

from __future__ import annotations


def install() -> bool:
    """Turn the shim on in this process; returns whether it is on. A second call changes nothing."""
    from .boot import start

    return start()
