"""Snapshots of several machines as one: identifiers are made unique across machines, TCP connections get both their
ends, clocks are corrected.

The type of a field in the model says what it identifies (`Pid`, `Name`, `Moment`), so a new table or field needs
nothing here:

- a pid or tid of host N gets N times `PIDS_OF_A_HOST` added, which its kernel cannot reach. N numbers all hosts,
  including silent ones, in order, so that a process keeps its number while hosts come and go;
- a kernel object, control group or device gets `@host` appended; the pid in a name that contains one is renamed;
- a moment is corrected by how far the host's clock is ahead; ages stay unchanged.

A socket knows its two addresses. "A to B" on one host and "B to A" on another are one connection, unless the same pair
exists twice, as with private addresses of containers, or never leaves a host (loopback, link-local).
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from mpmon.codec import TABLES
from mpmon.model import (
    PIDS_OF_A_HOST,
    AnyMoment,
    DeviceNumber,
    Elsewhere,
    Figures,
    KernelObject,
    Moment,
    Name,
    Node,
    Pid,
    ProbeReport,
    Process,
    Row,
    Snapshot,
)
from mpmon.numerals import numeral
from mpmon.rows import kept, same_rows, shared, shared_by
from mpmon.spans import Spans

ROOT_PID = 1
"""The root of the joined tree, above those of all hosts: a number that no renamed process has."""

MOST_PID = 1 << 22
"""PID_MAX_LIMIT of linux/threads.h."""

LAST_MOMENT = 253_370_764_799.0
"""The range of a calendar: see `mpmon.model.Moment`."""

_DEVICES = 1 << 40
"""Device numbers of one host; the kernel's have 32 bits (linux/kdev_t.h)."""

R = TypeVar("R", bound=Row)


class Unjoinable(ValueError):
    """Parts that contradict themselves or each other; the message says how."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One machine's report on its part of the job in one round."""

    host: str
    """The machine's name, perhaps not unique."""
    offset_s: float = 0.0
    """How far its clock is ahead of the joined snapshot's clock, seconds. Each change renews all of its rows, so it
    should not follow a jittering estimate.
    """
    later_s: float = 0.0
    """Seconds added to its moments, to lay a recording beside later ones."""
    snapshot: Snapshot | None = None
    """`None` for a machine that belongs to the job and does not respond."""
    problem: str | None = None
    """Why it does not respond."""
    commands: tuple[str, ...] = ()
    """Commands with which a person may log in there."""
    figures: Figures | None = None
    """The machine's figures, if its facts were not requested."""
    state: str | None = None
    heard_at: float | None = None
    """As in `Node`, in the common time."""
    version: str | None = None
    ranks: Spans = ()
    rights: str | None = None

    def moment(self, moment: float) -> float:
        """Converts a moment of the machine's own clock to the common time."""
        if not self.offset_s and not self.later_s:
            return moment
        return min(max(0.0, moment - self.offset_s + self.later_s), LAST_MOMENT)


def join(parts: Sequence[Part], elsewhere: Sequence[Elsewhere] = ()) -> Snapshot:
    """One snapshot of all machines of a job, named in any order, with what is known of ranks `elsewhere`. Facts older
    than the newest keep their age.

    Raises:
        Unjoinable: no part has a snapshot, a pid is impossible on Linux, or two parts have the same processes.
    """
    return Joiner().join(parts, elsewhere)


class Joiner:
    """Joins round after round: hosts keep their numbers, and unchanged rows stay the same objects."""

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, int], _Host] = {}
        """By name, and the number of earlier parts with that name."""
        self._before: Snapshot | None = None

    def join(self, parts: Sequence[Part], elsewhere: Sequence[Elsewhere] = ()) -> Snapshot:
        """The next round; parts with the same name come in the order of the previous round.

        Raises:
            Unjoinable: as `join`.
        """
        placed = self._placed(parts)
        heard = [(host, part, part.snapshot) for host, part in placed if part.snapshot is not None]
        if not heard:
            raise Unjoinable("no machine has reported anything")
        _check_apart(heard)
        tables: dict[str, Any] = {
            table: tuple(row for host, part, of in heard for row in host.table(table, of, part)) for table in TABLES
        }
        taken_at = {host.number: part.moment(of.taken_at) for host, part, of in heard}
        started_at = min(part.moment(of.root_start_time) for _, part, of in heard)
        tables["objects"] = _with_peers(tables["objects"])
        tables["figures"] += tuple(
            msgspec.structs.replace(part.figures, host=host.name)
            for host, part in placed if part.figures and not part.snapshot
        )  # fmt: skip
        tables["probes"] = tuple(_merged_reports((host.name, of) for host, _, of in heard))
        tables["elsewhere"] = tuple(elsewhere)
        tables["nodes"] = tuple(_node(host, part, taken_at.get(host.number)) for host, part in placed)
        if any(of.root for _, _, of in heard):
            tables["processes"] = (_root(started_at), *tables["processes"])
        joined = Snapshot(
            taken_at=max(taken_at.values()), root_pid=ROOT_PID, root_start_time=started_at, host=_named(heard),
            cpu_count=sum(of.cpu_count for _, _, of in heard),
            driver=", ".join(sorted({of.driver for _, _, of in heard if of.driver})) or None, **tables,
        )  # fmt: skip
        self._before = joined = _sharing(joined, self._before)
        return joined

    def _placed(self, parts: Sequence[Part]) -> list[tuple[_Host, Part]]:
        """Each part with its host, in the order of their numbers."""
        groups: dict[str, list[Part]] = defaultdict(list)
        for part in parts:
            groups[part.host].append(part)
        if not self._hosts:
            groups = {name: sorted(found, key=_age_of_root) for name, found in groups.items()}
        found: list[tuple[_Host, Part]] = []
        for name in sorted(groups):
            for place, part in enumerate(groups[name]):
                if (name, place) not in self._hosts:
                    self._hosts[name, place] = _Host(
                        len(self._hosts) + 1, name if not place else f"{name} ({place + 1})"
                    )
                found.append((self._hosts[name, place], part))
        return sorted(found, key=lambda pair: pair[0].number)


def _age_of_root(part: Part) -> tuple[float, int, float]:
    """Its value orders hosts of the same name, independently of the order in which they were given."""
    of = part.snapshot
    return (of.root_start_time, of.root_pid, of.taken_at) if of else (0.0, 0, 0.0)


class _Host:
    """The renaming of one machine's identifiers, and its tables as last renamed."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self._part = Part(host=name)
        self._root_pid = 0
        self._tables: dict[str, tuple[tuple[Row, ...], tuple[Row, ...]]] = {}

    def table(self, name: str, snapshot: Snapshot, part: Part) -> tuple[Row, ...]:
        """The rows of a table with the joined snapshot's identifiers; unchanged row objects stay the same."""
        if name in _OF_ALL:
            return ()
        before = self._part
        if (part.offset_s, part.later_s, snapshot.root_pid) != (before.offset_s, before.later_s, self._root_pid):
            self._tables, self._root_pid = {}, snapshot.root_pid
        self._part = part
        rows: tuple[Row, ...] = getattr(snapshot, name)
        known_rows, made = self._tables.get(name, ((), ()))
        if not same_rows(rows, known_rows):
            known = {id(old): new for old, new in zip(known_rows, made, strict=True)}
            made = tuple(known.get(id(row)) or self._row(row) for row in rows)
            self._tables[name] = (rows, made)
        return made

    def _row(self, row: R) -> R:
        made = _renamed(row, self)
        if not isinstance(made, Process):
            return made
        ppid = ROOT_PID if made.pid == self.pid(self._root_pid) else made.ppid
        return msgspec.structs.replace(made, ppid=ppid)

    # The four kinds of names

    def pid(self, pid: int) -> int:
        """0 and negative numbers mean nobody."""
        if pid > MOST_PID:
            raise Unjoinable(f"{self.name} has a process {pid}, and Linux gives no number above {MOST_PID}")
        return pid + self.number * PIDS_OF_A_HOST if pid > 0 else pid

    def name_of(self, name: str) -> str:
        """The new name of a kernel object; its kind says whether it begins with a pid or is local to the machine."""
        kind, _, rest = name.partition(":")
        if kind == "device":
            # A file with the same name on every machine: its users are tracked per process.
            return name
        if kind not in _BY_PID:
            return f"{name}@{self.name}"
        digits, colon, address = rest.partition(":")
        number = numeral(digits)
        return name if number is None else f"{kind}:{self.pid(number)}{colon}{address}"

    def device(self, number: int) -> int:
        """The number of a file system that processes see."""
        return number % _DEVICES + self.number * _DEVICES

    def moment(self, moment: float) -> float:
        """Converts to the common time."""
        return self._part.moment(moment)


_OF_ALL = frozenset({"probes", "nodes", "elsewhere"})
"""Tables that concern all hosts, or none."""

_BY_PID = frozenset({"process", "futex", "lock", "task", "asyncio"})
"""Kinds of kernel objects whose names begin with a pid."""


# Renaming, by the types of the model

_Change = Callable[[Any, _Host], Any]

_NAMES: dict[object, _Change] = {
    Pid: lambda value, host: host.pid(value),
    Name: lambda value, host: host.name_of(value),
    DeviceNumber: lambda value, host: host.device(value),
    Moment: lambda value, host: host.moment(value),
    AnyMoment: lambda value, host: host.moment(value),
}


def _renamed(row: R, host: _Host) -> R:
    changed = {
        name: change(value, host) for name, change in _changes(type(row)) if (value := getattr(row, name)) is not None
    }
    if "host" in row.__struct_fields__:
        changed["host"] = host.name
    return msgspec.structs.replace(row, **changed) if changed else row


@cache
def _changes(kind: type[Row]) -> tuple[tuple[str, _Change], ...]:
    """The fields of a row type that contain identifiers, and how each is renamed."""
    hints = get_type_hints(kind, include_extras=True)
    found = ((name, _change(hints[name])) for name in kind.__struct_fields__)
    return tuple((name, change) for name, change in found if change)


def _change(hint: Any) -> _Change | None:
    """How a value of a type other than `None` is renamed; `None` if it contains nothing to rename."""
    if hint in _NAMES:
        return _NAMES[hint]
    if isinstance(hint, type) and issubclass(hint, Row):
        return _renamed
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return next((change for part in inner if (change := _change(part))), None)
    if origin is not tuple:
        return None
    changes = [_change(part) for part in inner if part is not Ellipsis]
    if not any(changes):
        return None
    first = changes[0]
    if inner[-1] is Ellipsis and first:
        return lambda values, host: tuple(first(value, host) for value in values)
    return lambda values, host: tuple(
        change(value, host) if change else value for value, change in zip(values, changes, strict=True)
    )


# What belongs to no single host


def _check_apart(heard: Iterable[tuple[_Host, Part, Snapshot]]) -> None:
    """Reject two samples of one machine, which would be mistaken for two machines."""
    seen: dict[tuple[str, tuple[int, float]], str] = {}
    for host, part, snapshot in heard:
        if snapshot.nodes:
            raise Unjoinable("one of them was already joined from several machines")
        for process in snapshot.processes:
            other = seen.setdefault((part.host, process.key), host.name)
            if other != host.name:
                raise Unjoinable(f"two of them show pid {process.pid} of {part.host}")


def _root(started_at: float) -> Process:
    return Process(
        pid=ROOT_PID, start_time=started_at, ppid=0, state="S", name="job", threads=0, cpu_s=0.0, rss_bytes=0
    )


def _named(heard: Sequence[tuple[_Host, Part, Snapshot]]) -> str:
    names = [host.name for host, _, _ in heard]
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{names[0]} and {len(names) - 1} others"


MOST_NAMED = 4
"""Most hosts named in `Snapshot.host`."""


def _node(host: _Host, part: Part, taken_at: float | None) -> Node:
    cpus, addresses = (part.snapshot.cpu_count, part.snapshot.addresses) if part.snapshot else (1, None)
    return Node(host=host.name, number=host.number, taken_at=taken_at, offset_s=part.offset_s, later_s=part.later_s,
                cpu_count=cpus, addresses=addresses, problem=part.problem, commands=part.commands, state=part.state,
                heard_at=part.heard_at, version=part.version, ranks=part.ranks, rights=part.rights)  # fmt: skip


def _merged_reports(heard: Iterable[tuple[str, Snapshot]]) -> Iterator[ProbeReport]:
    """One row per probe: it works if it works on all hosts, and takes as long as on the slowest."""
    found: dict[str, list[tuple[str, ProbeReport]]] = defaultdict(list)
    for host, snapshot in heard:
        for row in snapshot.probes:
            found[row.name].append((host, row))
    for name, rows in found.items():
        said = {row.problem: host for host, row in rows if row.problem and not row.ok} or {
            row.problem: host for host, row in rows if row.problem
        }
        first, host = next(iter(said.items()), (None, ""))
        problem = f"{host}: {first}" if len(said) > 1 else first
        yield ProbeReport(name=name, ok=all(row.ok for _, row in rows), seconds=max(row.seconds for _, row in rows),
                          problem=problem)  # fmt: skip


def _sharing(joined: Snapshot, before: Snapshot | None) -> Snapshot:
    """Reuse the previous tables if all rows are the very same, and previous rows that are equal."""
    if before is None:
        return joined
    same = {table: kept(getattr(joined, table), getattr(before, table)) for table in TABLES}
    same["objects"] = shared_by(_id_of, joined.objects, before.objects)
    for table in _OF_ALL:
        same[table] = shared(getattr(joined, table), getattr(before, table))
    same["processes"] = kept(
        shared(joined.processes[:1], before.processes[:1]) + joined.processes[1:], before.processes
    )
    return msgspec.structs.replace(joined, **same)


def _id_of(row: KernelObject) -> str:
    return row.id


# Both ends of a connection

_ENDS = re.compile(r"tcp (\S+):(\d+) to (\S+):(\d+)")

Address = tuple[str, str]
"""Of one end of a connection: IP address and port."""


def ends(item: KernelObject) -> tuple[Address, Address] | None:
    """Near and far address and port of a TCP connection that may lead to another machine; `None` for any other object."""
    found = _ENDS.fullmatch(item.path or "") if item.kind == "socket" and not item.listens else None
    near, far = (_address(found[1]), _address(found[3])) if found else (None, None)
    return ((near, found[2]), (far, found[4])) if found and near and far else None


def _address(text: str) -> str | None:
    """A canonical form of an address; `None` if it means a different machine, or none, on each machine."""
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    # A server that listens on IPv6 sees its IPv4 clients this way: RFC 4291, section 2.5.5.2.
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    own = address.is_loopback or address.is_link_local or address.is_unspecified
    return None if own else str(address)


def pairs(objects: Iterable[KernelObject]) -> Iterator[tuple[KernelObject, KernelObject]]:
    """The connections with both ends among the sockets of different machines, each once."""
    found: dict[tuple[Address, Address], list[KernelObject]] = defaultdict(list)
    for item in objects:
        if item.peer is None and (both := ends(item)):
            found[both].append(item)
    for (near, far), items in found.items():
        others = found.get((far, near), [])
        if near < far and len(items) == len(others) == 1 and _host_of(items[0]) != _host_of(others[0]):
            yield items[0], others[0]


def _host_of(item: KernelObject) -> str:
    return item.id.rpartition("@")[2]


def _with_peers(objects: tuple[KernelObject, ...]) -> tuple[KernelObject, ...]:
    peers = {one.id: other.id for pair in pairs(objects) for one, other in (pair, pair[::-1])}
    return tuple(msgspec.structs.replace(row, peer=peers[row.id]) if row.id in peers else row for row in objects)
