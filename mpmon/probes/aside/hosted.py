"""Probes with tables of their own that live in the helper: their reads of the job's files and memory may never return.

Each round they receive the processes that started, ran or ended, and answer with the tables that changed. A round does
not wait for a late answer: the previous tables stay, and after a while the probe's report says for how long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from mpmon.model import ProbeReport, Process, Snapshot
from mpmon.probes.aside.wire import Unanswered
from mpmon.probes.files import Proc
from mpmon.rows import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mpmon.probes.aside.client import Aside

    class Hosted(Protocol):
        """A probe that lives in the helper: a `mpmon.session.side_probe.SideProbe`."""

        def begin(self) -> None:
            """A round begins."""
            ...

        def add(self, snapshot: Snapshot) -> Snapshot:
            """Returns the snapshot with its tables filled."""
            ...

        def close(self) -> None:
            """Release all resources."""
            ...


PATIENCE_S = 0.03
"""How long the end of a round waits for the answer; a report waits until it comes or the helper makes no progress."""

SILENCE_S = 2.0
"""After this time without an answer, the report says so."""

AGAIN_S, LIVES = 30.0, 4
"""A probe that does not answer is abandoned and replaced after this time, at most this often."""

TABLES = tuple(
    field.name for field in msgspec.structs.fields(Snapshot) if field.default == () and field.name != "processes"
)


class News(msgspec.Struct, kw_only=True):
    """Changes in the job's processes since the previous round."""

    round: Snapshot
    """The snapshot without rows."""
    changed: tuple[Process, ...] = ()
    """Rows of processes that started, ended or executed another program."""
    ran: tuple[int, ...] = ()
    """Pids of other processes that ran."""
    gone: tuple[int, ...] = ()


class HostedProbe:
    """One probe in the helper: a `mpmon.session.side_probe.SideProbe`."""

    def __init__(self, proc: Proc, aside: Aside, make: Callable[[Proc], Hosted], name: str, *, eager: bool) -> None:
        """`make` must be picklable; `name` is that of the probe's report.

        `eager` waits for each answer: a report needs it, while the first picture of a screen must not wait.
        """
        self._proc = proc
        self._aside = aside
        self._make = make
        self._name = name
        self._eager = eager
        self._rounds = 0
        self._number: int | None = None
        self._asked_at = 0.0
        self._spent: list[bytes] = []
        self._told: dict[int, Process] = {}
        self._helper: int | None = None
        """Pid of the helper that received `_told`."""
        self._tables: dict[str, tuple[Any, ...]] = {}
        self._lives = 0

    def begin(self) -> None:
        """Nothing yet: the request needs the processes of the round; see `add`."""

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the tables as far as known."""
        self._rounds += 1
        if self._rounds == 1 and not self._eager:
            return snapshot
        try:
            if self._number is None:
                self._ask(snapshot)
            self._hear()
        except Unanswered as problem:
            self._forget()
            return self._with_problem(snapshot, problem.strerror or "")
        silence = time.monotonic() - self._asked_at
        if self._number is not None and silence >= SILENCE_S:
            if silence >= AGAIN_S and self._lives < LIVES:
                self._forget()
            return self._with_problem(snapshot, f"no answer for {silence:.0f} s")
        return self._filled(snapshot)

    def close(self) -> None:
        """Nothing: the probe ends with the helper."""

    def _ask(self, snapshot: Snapshot) -> None:
        # A restarted helper has no state.
        if self._aside.start() and self._aside.pid != self._helper:
            self._told, self._helper = {}, self._aside.pid
        now = {process.pid: process for process in snapshot.processes}
        told, self._told = self._told, now
        moved = [process for pid, process in now.items() if told.get(pid) is not process]
        changed = tuple(row for row in moved if _lasting(row) != _lasting(told.get(row.pid)))
        news = News(
            round=Snapshot(
                taken_at=snapshot.taken_at, root_pid=snapshot.root_pid, root_start_time=snapshot.root_start_time
            ),
            changed=changed, ran=tuple({row.pid for row in moved} - {row.pid for row in changed}),
            gone=tuple(told.keys() - now.keys()),
        )  # fmt: skip
        self._asked_at = time.monotonic()
        self._spent = []
        key = f"{self._name} {id(self)} {self._lives}"
        self._number = self._aside.post(play_round, self._proc, key, self._make, news)

    def _hear(self) -> None:
        if self._number is None:
            return
        answer = self._aside.posted(self._number, PATIENCE_S)
        while answer is None and self._eager and self._may_wait():
            answer = self._aside.posted(self._number, PATIENCE_S)
        if answer is None:
            return
        self._number = None
        if answer.raised is not None:
            raise answer.raised
        for table, rows in answer.result.items():
            self._tables[table] = shared(rows, self._tables.get(table, ()))

    def _may_wait(self) -> bool:
        """Whether to wait longer for a report: as long as the helper makes progress."""
        if time.monotonic() - self._asked_at < SILENCE_S / 2:
            return True
        return self._number is not None and self._aside.makes_headway(self._number, self._spent)

    def _forget(self) -> None:
        """Forget what the probe was told: its replacement begins without it."""
        if self._number is not None:
            self._aside.forget(self._number)
        self._number, self._told = None, {}
        self._lives += 1

    def _filled(self, snapshot: Snapshot) -> Snapshot:
        if not self._tables:
            return snapshot
        both = {table: (*getattr(snapshot, table), *self._tables.get(table, ())) for table in ("unknowns", "probes")}
        return msgspec.structs.replace(snapshot, **{**self._tables, **both})

    def _with_problem(self, snapshot: Snapshot, problem: str) -> Snapshot:
        report = ProbeReport(name=self._name, ok=False, seconds=0.0, problem=problem)
        self._tables["probes"] = (report,)
        return self._filled(snapshot)


def _lasting(row: Process | None) -> tuple[object, ...] | None:
    """The fields of a row that hosted probes use, without counters."""
    return row and (
        row.start_time, row.ended, row.ppid, row.uid, row.namespace_pid, row.forked, row.environment,
    )  # fmt: skip


class _Host:
    """One probe and what it knows of the job's processes."""

    def __init__(self, probe: Hosted) -> None:
        self._probe = probe
        self._processes: dict[int, Process] = {}
        self._sent: dict[str, object] = {}

    def play(self, news: News) -> dict[str, tuple[object, ...]]:
        """Play one round; returns the tables that changed."""
        for pid in news.gone:
            self._processes.pop(pid, None)
        for pid in news.ran:
            self._processes[pid] = msgspec.structs.replace(self._processes[pid])
        self._processes.update((row.pid, row) for row in news.changed)
        processes = tuple(self._processes[pid] for pid in sorted(self._processes))
        snapshot = msgspec.structs.replace(news.round, processes=processes)
        self._probe.begin()
        found = self._probe.add(snapshot)
        tables = {table: getattr(found, table) for table in TABLES}
        changed = {table: rows for table, rows in tables.items() if rows is not self._sent.get(table, ())}
        self._sent |= changed
        return changed


_hosts: dict[str, _Host] = {}
"""Probes in this helper, by key."""


def play_round(proc: Proc, key: str, make: Callable[[Proc], Hosted], news: News) -> dict[str, tuple[object, ...]]:
    """Play one round of one probe, in the helper."""
    if key not in _hosts:
        _hosts[key] = _Host(make(proc))
    return _hosts[key].play(news)


def hosted(
    proc: Proc, make: Callable[..., Hosted], name: str, *, eager: bool, settings: dict[str, Any] | None = None
) -> Hosted:
    """A side probe: in the helper if there is one, else in this process."""
    bound = partial(make, **(settings or {}))
    return HostedProbe(proc, proc.aside, bound, name, eager=eager) if proc.aside else bound(proc)
