"""Network addresses: which ones mean this machine, and where a rank looks for the others."""

from __future__ import annotations

import re

from mpmon.diagnosis.state.snapshot_index import SnapshotIndex

_THIS_MACHINE = ("127.", "::1", "[::1]", "localhost")
"""Prefixes of addresses that mean the local machine, so a different one on each machine."""

_OTHER_NAMES = re.compile(r"\blocalhost\b|\[?::1\]?(?=:)")
"""Other names of 127.0.0.1, in an address with a port."""


def is_this_machine(address: str) -> bool:
    """Whoever uses this address means the machine it runs on."""
    return address.startswith(_THIS_MACHINE)


def rendezvous_address(job: SnapshotIndex, pid: int) -> str | None:
    """Where a rank in `init_process_group` looks for the others: the argument of that call, or of the one in it that looks for
    the store; else its environment.
    """
    stack = job.stacks.get((pid, pid))
    known = [frame.known for frame in stack.frames if frame.known] if stack else []
    given = (row.get("init_method", "None") for row in known)
    if method := next((text for text in given if text not in ("None", "env://")), None):
        return _OTHER_NAMES.sub("127.0.0.1", method)
    if found := next((row for row in known if {"hostname", "port"} <= set(row)), None):
        return _OTHER_NAMES.sub("127.0.0.1", f"{found['hostname']}:{found['port']}")
    kept = job.processes[pid].environment or {}
    if not {"MASTER_ADDR", "MASTER_PORT"} <= set(kept):
        return None
    return _OTHER_NAMES.sub("127.0.0.1", f"{kept['MASTER_ADDR']}:{kept['MASTER_PORT']}")
