"""A job of one machine, told as if its ranks ran on several, has the same fault."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpmon.codec import TABLES
from mpmon.diagnosis import History, diagnose
from mpmon.diagnosis.findings import Diagnosis
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject, Process, Row, Snapshot
from mpmon.nodes.join import Joiner, Part
from mpmon.session.recording import read_recording
from tests.builders import blocked, process, thread
from tests.hangs.expected import cases


class Split:
    """The rounds of a job whose ranks were dealt out to machines, each with a launcher of its own.

    Whoever waits for what no network carries stays with those who have the other end of it.
    """

    def __init__(self, rounds: Sequence[Snapshot], machines: int, seed: int) -> None:
        history = seen(rounds)
        self._case = JobState(history, rounds[-1])
        ranks = sorted(self._case.ranks)
        # Whoever started the ranks waits for one of them at least.
        dealt = [0, *random.Random(seed).choices(range(machines), k=len(ranks) - 1)]
        self.hosts = dict(zip(ranks, dealt, strict=True))
        for together in self._bound():
            at = min(self.hosts.get(pid, 0) for pid in together)
            self.hosts.update(dict.fromkeys(together & set(ranks), at))
        self._joiner = Joiner()

    def _bound(self) -> list[set[int]]:
        """Ranks, and 0 for whoever works for none, that one waits in what another has, transitively."""
        ends = [
            {self._owner(row.pid) for row in self._case.holders.get(item.id, ())}
            for item in self._case.objects.values() if (item.path or "").startswith("tcp ")
        ]  # fmt: skip
        groups: list[set[int]] = []
        for owners in (*self._waiting_here(), *(found for found in ends if len(found) > 1)):
            merged = owners.union(*(group for group in groups if group & owners))
            groups = [group for group in groups if not group & merged] + [merged]
        return groups

    def _waiting_here(self) -> Iterator[set[int]]:
        """Who waits, for anything but an end and what comes over a connection of which both ends were described, with those who
        have it; who asks a server that has not accepted the connection yet, which has no other end, stays with the first.
        """
        for key in self._case.blocked:
            items = [] if self._case.wait_state(key).kind in ENDS_OF_PROCESSES else list(self._case.waits_on(key))
            local = [item for item in items if not self._is_carried(item, by_code=key in self._case.stacks)]
            holders = (row.pid for item in local for row in self._case.holders.get(item.peer or item.id, ()))
            queued = key in self._case.stacks and any(_has_no_other_end(item) for item in items)
            yield {self._owner(pid) for pid in (*holders, key[0])} | ({0} if queued else set())

    def _is_carried(self, item: KernelObject, *, by_code: bool) -> bool:
        """By a network; native threads hear of those connections too of which the other end was not described."""
        if not (item.path or "").startswith("tcp "):
            return False
        return not by_code or item.peer is None or item.peer in self._case.objects

    def _owner(self, pid: int) -> int:
        """The rank it is or works for, 0 where there is none."""
        while pid in self._case.processes and pid not in self._case.ranks:
            pid = self._case.processes[pid].ppid
        return pid if pid in self._case.ranks else 0

    def __call__(self, whole: Snapshot) -> Snapshot:
        """One round."""
        return self._joiner.join([
            Part(host=f"h{host}", snapshot=self._part(whole, host)) for host in sorted({0, *self.hosts.values()})
        ])  # fmt: skip

    def _host(self, pid: int) -> int:
        """That of the rank it is, or works for; the first for all others."""
        return self.hosts.get(self._owner(pid), 0)

    def _part(self, whole: Snapshot, host: int) -> Snapshot:
        there = {row.pid for row in whole.processes if self._host(row.pid) == host}
        tables = {name: tuple(row for row in getattr(whole, name) if _is_there(row, there)) for name in TABLES}
        far = {row.object: self._host(row.pid) for row in whole.handles}
        held = {row.object for row in whole.handles if row.pid in there}
        known = (row for row in whole.objects if row.id in held or (not host and row.id not in far))
        tables["objects"] = tuple(self._seen_from(host, row, far) for row in known)
        tables["processes"] = tuple(self._with_place(row, host) for row in tables["processes"])
        if host:
            top = process(whole.root_pid, parent=0, name="bash", cmdline=("bash",), exe="/bin/bash", start_time=1.0)
            waits = blocked("wait4", "process:any", pid=top.pid, ran_at=1.0)
            for name, row in (("processes", top), ("threads", thread(top.pid, name="bash")), ("blocked", waits)):
                tables[name] = (row, *tables[name])
        return msgspec.structs.replace(whole, **tables)

    def _seen_from(self, host: int, item: KernelObject, far: dict[str, int]) -> KernelObject:
        """A connection between two ranks leads to another machine, by addresses that its kernel does not have."""
        other = far.get(item.peer or "", host)
        path = (item.path or "").replace("127.0.0.1", "10.0.0.1").replace("::1", "2001:db8::1")
        return item if other == host else msgspec.structs.replace(item, path=path, peer=None)

    def _with_place(self, row: Process, host: int) -> Process:
        """A rank as its launcher would have started it."""
        if row.pid not in self.hosts or row.environment is None:
            return row
        told = {"MASTER_ADDR": "h0"} if "MASTER_ADDR" in row.environment else {}
        return msgspec.structs.replace(row, environment={**row.environment, **told})


def _has_no_other_end(item: KernelObject) -> bool:
    return (item.path or "").startswith("tcp ") and not item.listens and item.peer is None


def seen(rounds: Sequence[Snapshot]) -> History:
    found = History()
    for each in rounds:
        found = found.add(each)
    return found


def _is_there(row: Row, there: set[int]) -> bool:
    return getattr(row, "pid", None) in there or not hasattr(row, "pid")


def said(diagnosis: Diagnosis) -> tuple[object, ...]:
    """What does not hang on pids: the cause of the first finding, and who has to move; a rank that does not say its number has
    the one that a guess gives it.
    """
    first = diagnosis.findings[0] if diagnosis.findings else None
    suspects = sorted((row.role.rstrip("?0123456789"), str(row.frame)) for row in first.suspects) if first else []
    return diagnosis.verdict, first and first.cause, suspects


def told(rounds: Sequence[Snapshot]) -> Diagnosis:
    return diagnose(seen(rounds))


def of_ranks() -> list[Path]:
    """Cases in which ranks hang, and one of them, or one who works for it, is to blame."""
    found: list[Path] = []
    for case in cases():
        rounds = list(read_recording(case / "recording.jsonl.gz"))
        history = seen(rounds)
        ranks = [role for role in history.roles.values() if role.kind == "rank"]
        first = next(iter(diagnose(history).findings), None)
        blamed = {history.roles[row.pid].rank for row in first.suspects if row.pid in history.roles} if first else set()
        if len(ranks) > 1 and blamed - {None}:
            found.append(case)
    return found


CASES = of_ranks()


def test_there_are_jobs_to_deal_out() -> None:
    """A single deal may leave a job that can be dealt out on one machine."""
    rounds = [list(read_recording(case / "recording.jsonl.gz")) for case in CASES]
    apart = [each for each in rounds if any(len(set(Split(each, 4, seed).hosts.values())) > 1 for seed in range(8))]
    assert len(apart) > len(CASES) / 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(machines=st.integers(2, 4), seed=st.integers(0, 1 << 16))
def test_a_job_that_is_dealt_out_has_the_same_fault(case: Path, machines: int, seed: int) -> None:
    rounds = list(read_recording(case / "recording.jsonl.gz"))
    split = Split(rounds, machines, seed)
    assert said(told([split(each) for each in rounds])) == said(told(rounds)), split.hosts
