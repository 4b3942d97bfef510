"""The queue shim: records in shared memory what one process of a job does with its queues and its CUDA memory.

From outside mpmon sees that a queue is full and who waits; it does not see what the queue is for, which line puts into it,
and whose memory a consumer keeps.  The shim adds these names.  It runs inside the job, so:

- it needs the standard library only, and imports nothing of mpmon but this package;
- it starts no thread, opens no socket, takes no lock that it would wait for, and never raises into the job;
- what goes through a queue is the same, byte for byte;
- nothing has to be asked of the job later: the file can be read while the job is stopped, hangs with the GIL held, or is dead.

Ways to turn it on:

- `mpmon run -- CMD`: for CMD and everything it starts;
- `import mpmon.shim; mpmon.shim.install()` at the top of the main program: for it and its `multiprocessing` children;
- where mpmon is installed in the job's environment, `MPMON_SHIM=1` in its environment variables is enough.

Modules: `boot` waits for the modules to be hooked and `startup/` is how interpreters come to call it; `queues` and `storages`
are the hooks, `patches` puts them in and takes them out; `records`, `sites`, `transfers` and `writer` make records of what the
hooks see, `layout` is the form of the file, `places` where it lies; `whose` tells the job's code and exceptions from the
shim's; `rights` and `dumps` let mpmon look at stacks.
"""

from __future__ import annotations


def install() -> bool:
    """Turn the shim on in this process; whether it is on. A second call changes nothing."""
    from .boot import start

    return start()
