"""Pids as they are on their machines: a diagnosis of a job on several machines is made with mpmon's own numbers.

Rules write `pid 25165835` as usual, since to them a snapshot is one machine. Only here does that become `pid 11 on h3`,
in all sentences of a diagnosis; views ask `Hosts` for the pids that they show themselves.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import Any, Optional, TypeVar, get_type_hints

import msgspec

from mpmon.diagnosis.findings import Diagnosis, Event, Finding, ProcessView, Suspect
from mpmon.diagnosis.humanize import several
from mpmon.model import PIDS_OF_A_HOST, Pid, Row, Snapshot

R = TypeVar("R", bound=Row)

_NUMBER = re.compile(
    r"(?P<listed>\bpids? |, | and )?(?<![\w.@-])(?P<number>\d{7,14})(?:-(?P<last>\d{7,14}))?(?![\w@]|\.\d)"
)
"""A number that may be a pid, or the first of several in a row; `listed` if the text marks it as a pid."""

FEW = 2
"""Suspects whose sentences are recognised by their pids."""


class Hosts:
    """The machines of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._names = {row.number: row.host for row in snapshot.nodes}

    def __bool__(self) -> bool:
        """There are several machines."""
        return bool(self._names)

    def name(self, pid: int) -> str:
        """The machine of a process or thread; empty if there is only one machine."""
        return self._names.get(pid // PIDS_OF_A_HOST, "")

    def number(self, pid: int) -> int:
        """The pid or tid on its own machine."""
        return pid % PIDS_OF_A_HOST if self.name(pid) else pid

    def pid(self, pid: int) -> str:
        """For people: `11`, `11 on h3`."""
        name = self.name(pid)
        return f"{self.number(pid)} on {name}" if name else str(pid)

    def text(self, text: str) -> str:
        """A sentence with the pids on their machines. A path or a command gets the bare number, and the machine follows
        at the end.
        """
        others: dict[str, None] = {}

        def told(found: re.Match[str]) -> str:
            pid, before, last = int(found["number"]), found["listed"] or "", int(found["last"] or 0)
            if pid not in self._known or (last and self.name(last) != self.name(pid)):
                return found[0]
            numbers = f"{self.number(pid)}-{self.number(last)}" if last else f"{self.number(pid)}"
            if before:
                return f"{before}{numbers} on {self.name(pid)}"
            others[self.name(pid)] = None
            return numbers

        changed = _NUMBER.sub(told, text)
        where = f" (on {several(list(others))})" if others else ""
        return f"{changed.removesuffix('.')}{where}." if changed.endswith(".") else f"{changed}{where}"

    @cached_property
    def _known(self) -> frozenset[int]:
        """All numbers that are a process or thread."""
        rows = self._snapshot
        pids = (row.pid for table in (rows.processes, rows.exits, rows.outsiders) for row in table)
        children = (row.child for row in rows.remembered)
        threads = (row.tid for row in rows.threads)
        return frozenset(pid for numbers in (pids, children, threads) for pid in numbers if self.name(pid))


def told(diagnosis: Diagnosis, snapshot: Snapshot) -> Diagnosis:
    """A diagnosis as shown to people."""
    hosts = Hosts(snapshot)
    if not hosts:
        return diagnosis
    findings = tuple(_finding(hosts, row) for row in diagnosis.findings)
    because = findings[0].summary if findings else hosts.text(diagnosis.because)
    return msgspec.structs.replace(
        diagnosis, because=because, findings=findings,
        remarks=tuple(_sentences(hosts, row) for row in diagnosis.remarks),
        unchecked=tuple(_sentences(hosts, row) for row in diagnosis.unchecked),
        processes=tuple(_view(hosts, row) for row in diagnosis.processes),
    )  # fmt: skip


def told_event(event: Event, snapshot: Snapshot) -> Event:
    """An event as shown to people."""
    return _sentences(Hosts(snapshot), event) if snapshot.nodes else event


def _finding(hosts: Hosts, row: Finding) -> Finding:
    suspects = tuple(_with_host(hosts, _sentences(hosts, suspect)) for suspect in row.suspects)
    summary = row.summary
    for suspect in row.suspects[:FEW] if len(row.suspects) <= FEW else ():
        summary = _with_place(hosts, summary, suspect)
    row = _sentences(hosts, msgspec.structs.replace(row, summary=summary))
    return msgspec.structs.replace(
        row, suspects=suspects, waiters=tuple(_with_host(hosts, _sentences(hosts, waiter)) for waiter in row.waiters),
        chain=tuple(_with_host(hosts, _sentences(hosts, link)) for link in row.chain),
        threads=tuple(_with_host(hosts, _sentences(hosts, thread)) for thread in row.threads),
    )  # fmt: skip


def _with_place(hosts: Hosts, summary: str, suspect: Suspect) -> str:
    """Add the location of a suspect after its role, and its rank where the role does not tell it."""
    if not hosts.name(suspect.pid):
        return summary
    told = suspect.rank is None or suspect.role.endswith(f"rank {suspect.rank}")
    of = "" if told else f", of rank {suspect.rank}"
    if f"pid {suspect.pid}" in summary:
        return summary.replace(f"pid {suspect.pid})", f"pid {suspect.pid}{of})", 1)
    # The role of a dead process may not be known by a name of its own.
    role = re.compile(rf"\b{re.escape(suspect.role)}\b")
    # A job's name may contain a backslash, which would be special in a template.
    return role.sub(lambda found: f"{found[0]} (pid {suspect.pid}{of})", summary, count=1)


def _view(hosts: Hosts, row: ProcessView) -> ProcessView:
    role, does = hosts.text(row.role), hosts.text(row.does)
    return row if (role, does) == (row.role, row.does) else msgspec.structs.replace(row, role=role, does=does)


def _with_host(hosts: Hosts, row: Any) -> Any:
    return msgspec.structs.replace(row, host=hosts.name(row.pid) or None)


def _sentences(hosts: Hosts, row: R) -> R:
    """A row with all its texts rewritten."""
    changed: dict[str, object] = {}
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if isinstance(value, str):
            changed[name] = hosts.text(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], str):
            changed[name] = tuple(hosts.text(text) if isinstance(text, str) else text for text in value)
    return msgspec.structs.replace(row, **changed)


# Rows for scripts


def bare(value: Any, hosts: Hosts) -> Any:
    """A row with the pids on their machines; a row about a single process also gets the name of its machine."""
    if isinstance(value, tuple):
        return tuple(bare(each, hosts) for each in value)
    if not isinstance(value, msgspec.Struct):
        return value
    pids = _pids(type(value))
    changed = {name: _numbers(given, hosts) if name in pids else bare(given, hosts)
               for name in value.__struct_fields__ if (given := getattr(value, name)) is not None}  # fmt: skip
    if "host" in value.__struct_fields__ and "pid" in pids:
        changed["host"] = hosts.name(getattr(value, "pid", 0)) or None
    return msgspec.structs.replace(value, **changed)


def _numbers(value: Any, hosts: Hosts) -> Any:
    return tuple(_numbers(each, hosts) for each in value) if isinstance(value, tuple) else hosts.number(value)


_OF_PIDS: tuple[object, ...] = (Pid, Optional[Pid], tuple[Pid, ...])  # noqa: UP045  `|` knows no such type before 3.14


@cache
def _pids(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The fields that are pids or lists of them."""
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(name for name, hint in hints.items() if hint in _OF_PIDS)
