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


def store_address(job: SnapshotIndex, pid: int) -> str | None:
    """Where a rank looks for the store at the moment, by the arguments of the call; rank 0 serves it there. `None` for a rank
    that has found it.
    """
    stack = job.stacks.get((pid, pid))
    known = (frame.known for frame in stack.frames if frame.known) if stack else ()
    found = next((row for row in known if {"hostname", "port"} <= set(row)), None)
    return _OTHER_NAMES.sub("127.0.0.1", f"{found['hostname']}:{found['port']}") if found else None


def rendezvous_address(job: SnapshotIndex, pid: int) -> str | None:
    """Where a rank in `init_process_group` was told to look for the others: the argument of that call, else its environment."""
    stack = job.stacks.get((pid, pid))
    given = (frame.known.get("init_method", "None") for frame in stack.frames if frame.known) if stack else ()
    if method := next((text for text in given if text not in ("None", "env://")), None):
        return _OTHER_NAMES.sub("127.0.0.1", method)
    kept = job.processes[pid].environment or {}
    if not {"MASTER_ADDR", "MASTER_PORT"} <= set(kept):
        return None
    return _OTHER_NAMES.sub("127.0.0.1", f"{kept['MASTER_ADDR']}:{kept['MASTER_PORT']}")


def may_be_the_same(one: str, other: str) -> bool:
    """Two addresses that are equal, or whose ports are, while one has the name of a machine and the other its number."""
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    mixed = bool(_NUMERIC.search(host)) != bool(_NUMERIC.search(other_host))
    return one == other or (port == other_port and mixed)


_NUMERIC = re.compile(r"^(.*//)?\[?[0-9a-fA-F.:]*[.:][0-9a-fA-F.:]*\]?$")
"""IPv4 or IPv6, after the scheme of an URL."""
