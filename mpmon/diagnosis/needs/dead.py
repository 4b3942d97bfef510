"""The dead: processes that ended and whose part nobody does."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.graph import Gone


def exit_words(code: int | None) -> str:
    """wait(2)'s status in words."""
    if code is None:
        return "ended"
    if signal := code & 0x7F:
        return f"killed by signal {signal}"
    return f"ended with exit status {code >> 8 & 0xFF}"


def dead_relatives(case: Case, pid: int, *, certain: bool) -> list[Gone]:
    """Children and siblings that ended and were not collected: they may have been the other end."""
    parent = case.processes[pid].ppid
    return [
        Gone(other, exit_words(case.processes[other].exit_code), certain)
        for other in case.zombies
        if case.processes[other].ppid in (pid, parent) and other != pid
    ]


def gone_children(case: Case, parent: int, kind: str) -> list[Gone]:
    """Children of this kind that ended: zombies, and those mpmon saw end."""
    found = [
        Gone(pid, exit_words(case.processes[pid].exit_code))
        for pid in case.children.get(parent, ())
        if not case.is_alive(pid) and case.role(pid).kind in (kind, "process", "subprocess")
    ]
    seen = [
        Gone(row.pid, "ended while mpmon watched")
        for row in case.snapshot.exits
        if row.process.ppid == parent and row.process.name == "pt_data_worker" and kind == "dataloader worker"
    ]
    return found or seen
