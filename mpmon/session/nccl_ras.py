"""NCCL's RAS, queried once per hang of ranks: its facts on communicators become rows like those of Flight Recorders.

A query may harm the job, see `mpmon.probes.nccl_ras`: it is sent only if a job with ranks was found to hang, or may
hang and only the answer can distinguish that from a computation; not again until that is over, and never twice within
`REST_S`.  A separate thread sends it, so no round waits.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator

import msgspec

from mpmon.diagnosis.findings import Verdict
from mpmon.model import PIDS_OF_A_HOST, Collective, FlightRecord, GroupProgress, ProbeReport, Snapshot, Unknown
from mpmon.probes import nccl_ras
from mpmon.probes.nccl_ras import Address, Communicator, NoAnswer, Peer
from mpmon.probes.nccl_ras.answer import Missing, NotUnderstood

REST_S = 300.0
"""Fewest seconds between two queries, however often hangs come and go."""

PROBE = "NCCL RAS"

MOST_NAMED = 5
"""Most ranks named in a sentence."""

_OPERATIONS = {
    "AllReduce": "all_reduce", "Broadcast": "broadcast", "Reduce": "reduce", "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
}  # fmt: skip
"""Operations: NCCL's name to torch's."""


class Said(msgspec.Struct, frozen=True):
    """One answer, or why there is none."""

    asked_at: float
    communicators: tuple[Communicator, ...] = ()
    problem: str = ""


Ask = Callable[[Address], tuple[Communicator, ...]]
"""A function that queries RAS at an address. It may raise `NoAnswer` and `NotUnderstood`, and always returns."""


def asked_here(address: Address) -> tuple[Communicator, ...]:
    """What RAS answers to a query from this machine.

    Raises:
        NoAnswer: RAS does not answer.
        NotUnderstood: the answer is not what NCCL sends.
    """
    return nccl_ras.communicators(nccl_ras.ask(address))


class NcclRas:
    """Queries RAS, and adds the answer to each round."""

    def __init__(self, address: Address, now: Callable[[], float], ask: Ask | None = None) -> None:
        """`now` is the clock of the rounds; `ask` replaces the query from this machine."""
        self._address = address
        self._ask_it = ask or asked_here
        self._now = now
        self._asked_at = float("-inf")
        self._of_this_hang = False
        self._asking: threading.Thread | None = None
        self._said: Said | None = None
        self._rows: tuple[Said, Snapshot, Rows] | None = None

    @property
    def is_asking(self) -> bool:
        """Whether an answer may still come."""
        return self._asking is not None and self._asking.is_alive()

    def see(self, verdict: Verdict, ranks: Collection[int], *, may_hang: bool = False) -> None:
        """Take a round's verdict and the job's ranks; `may_hang`: all ranks may be in collectives that never end."""
        if (verdict is Verdict.HUNG or may_hang) and ranks:
            if not self._of_this_hang and self._now() >= self._asked_at + REST_S:
                self._ask()
            self._of_this_hang = True
        elif verdict in (Verdict.HEALTHY, Verdict.SLOW):
            self._of_this_hang, self._said = False, None

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what RAS has answered."""
        said = self._said
        if said is None and self.is_asking:
            said = Said(self._asked_at, problem=f"{self._address} has not answered yet")
        if said is None:
            return snapshot
        rows = self._rows_of(said, snapshot)
        report = ProbeReport(name=PROBE, ok=not rows.problem, seconds=0.0, problem=rows.problem or None)
        return msgspec.structs.replace(
            snapshot, flight_records=(*snapshot.flight_records, *rows.records),
            collectives=(*snapshot.collectives, *rows.collectives), probes=(*snapshot.probes, report),
            unknowns=(*snapshot.unknowns, *rows.unknowns),
        )  # fmt: skip

    # Inside

    def _ask(self) -> None:
        self._asked_at = self._now()
        self._said = None
        self._asking = threading.Thread(target=self._work, args=(self._asked_at,), name="nccl ras", daemon=True)
        self._asking.start()

    def _work(self, at: float) -> None:
        try:
            self._said = Said(at, self._ask_it(self._address))
        except (NoAnswer, NotUnderstood) as problem:
            self._said = Said(at, problem=f"{self._address} {problem}")
        except Exception as defect:
            # An error caused by untrusted data must not end the watch, and must be visible.
            self._said = Said(at, problem=f"{self._address}: {defect!r}"[:200])

    def _rows_of(self, said: Said, snapshot: Snapshot) -> Rows:
        """The rows of an answer; the same object as long as the processes are the same."""
        kept = self._rows
        if kept is None or kept[0] is not said or _pids(kept[1]) != _pids(snapshot):
            self._rows = kept = (said, snapshot, rows(said, snapshot))
        return kept[2]


def _pids(snapshot: Snapshot) -> list[int]:
    return [row.pid for row in snapshot.processes]


class Rows(msgspec.Struct, frozen=True):
    """What an answer adds to a snapshot."""

    records: tuple[FlightRecord, ...] = ()
    collectives: tuple[Collective, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    problem: str = ""


def rows(said: Said, snapshot: Snapshot) -> Rows:
    """The rows of one answer, for the processes in a snapshot."""
    pids = _by_address(snapshot)
    groups: dict[int, list[GroupProgress]] = defaultdict(list)
    calls: list[Collective] = []
    problems = [said.problem] if said.problem else []
    for communicator in said.communicators:
        here = [(pids.get((peer.host, peer.pid)), peer) for peer in communicator.peers]
        for pid, progress in _progress(communicator, here):
            groups[pid].append(progress)
        calls += _calls(communicator, here)
        problems += _silent(communicator)
        problems += _strangers(communicator, here)
    return Rows(
        records=tuple(FlightRecord(pid=pid, read_at=said.asked_at, groups=tuple(found)) for pid, found in groups.items()),
        collectives=tuple(calls),
        unknowns=tuple(
            Unknown(table="flight_records", pid=snapshot.root_pid, reason=f"{PROBE}: {problem}")
            for problem in problems[:MOST_NAMED]
        ),
        problem="; ".join(problems[:MOST_NAMED]),
    )  # fmt: skip


def _by_address(snapshot: Snapshot) -> dict[tuple[str, int], int]:
    """Pids of the snapshot by address of the machine and by the pid on it; an address that two machines have is left out.

    NCCL calls a machine by the address of the interface that it uses (the field `host` of NCCL 2.28.9).
    """
    rows = [(row.number, row.addresses) for row in snapshot.nodes] or [(0, snapshot.addresses)]
    machines = {number: addresses or () for number, addresses in rows}
    times = Counter(address for addresses in machines.values() for address in addresses)
    found: dict[tuple[str, int], int] = {}
    for row in snapshot.processes:
        number, pid = divmod(row.pid, PIDS_OF_A_HOST) if snapshot.nodes else (0, row.pid)
        found.update(((address, pid), row.pid) for address in machines.get(number, ()) if times[address] == 1)
    return found


Here = list[tuple[int | None, Peer]]
"""The peers of a communicator, each with the pid of its process, or `None` if that is not visible."""


def _progress(communicator: Communicator, here: Here) -> Iterator[tuple[int, GroupProgress]]:
    """The progress of each visible peer. Only peers that are ahead have `waits_in`: equal counts prove nothing."""
    least = min((peer.issued for peer in communicator.peers), default=0)
    for pid, peer in here:
        if pid is not None and _is_complete(communicator):
            yield pid, GroupProgress(
                backend="nccl", name=communicator.name, enqueued=peer.issued,
                waits_in=least + 1 if peer.issued > least else None, counted=False,
            )  # fmt: skip


def _is_complete(communicator: Communicator) -> bool:
    """Whether all its ranks have answered: the progress of a rank that has not is unknown."""
    return not communicator.missing and len(communicator.peers) == communicator.size


def _calls(communicator: Communicator, here: Here) -> Iterator[Collective]:
    """If the counts of exactly one kind of operation differ: the calls of the peers that are ahead."""
    kinds = {kind for peer in communicator.peers for kind in peer.counts}
    differ = [kind for kind in kinds if len({peer.counts.get(kind, 0) for peer in communicator.peers}) > 1]
    if len(differ) != 1 or differ[0] not in _OPERATIONS or not _is_complete(communicator):
        return
    least = min(peer.issued for peer in communicator.peers)
    for pid, peer in here:
        if pid is not None and peer.issued > least:
            yield Collective(
                pid=pid, backend="nccl", group=communicator.name, number=least + 1, operation=_OPERATIONS[differ[0]],
                state="scheduled",
            )  # fmt: skip


def _silent(communicator: Communicator) -> Iterator[str]:
    """The ranks that NCCL itself reports as missing."""
    for dead, words in ((True, "dead, says NCCL"), (False, "silent: NCCL's own thread there does not answer")):
        gone = [row for row in communicator.missing if row.dead is dead]
        if gone:
            yield f"{_named(gone, communicator)} {words}"


def _strangers(communicator: Communicator, here: Here) -> Iterator[str]:
    """Peers on other hosts, or with another pid in their own namespace: reported, but attributed to no process."""
    strangers = [peer for pid, peer in here if pid is None]
    issued = [peer.issued for peer in communicator.peers]
    if behind := [
        peer for peer in strangers if _is_complete(communicator) and min(issued) == peer.issued < max(issued)
    ]:
        few = f"{behind[0].issued} operations issued, others up to {max(issued)}"
        yield f"{_named(behind, communicator)} behind the others ({few}), and not among the visible processes"
    if rest := [peer for peer in strangers if peer not in behind]:
        yield f"{_named(rest, communicator)} not among the visible processes"


def _named(peers: list[Peer] | list[Missing], communicator: Communicator) -> str:
    told = ", ".join(f"{row.rank} (pid {row.pid} on {row.host[:64]})" for row in peers[:MOST_NAMED])
    more = f" and {len(peers) - MOST_NAMED} more" if len(peers) > MOST_NAMED else ""
    be = "is" if len(peers) == 1 else "are"
    return f"rank {told}{more} of communicator {communicator.name[:64]} {be}"
