"""Which rank is in which collective, from frames and Flight Recorders, and how the odd ones differ from the others.

Every rank waits for every other one, so the chain of waiters says nothing; only the calls they wait in can tell.
`split` tries the most telling difference first and stops at the first that applies; rules only put it into words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum

import msgspec

from mpmon.diagnosis.findings import Certainty, Place
from mpmon.diagnosis.humanize import runs, several
from mpmon.diagnosis.libraries.torch import BACKWARD
from mpmon.diagnosis.libraries.torch_distributed import ASYNCHRONOUS, POINT_TO_POINT
from mpmon.diagnosis.ranks.ahead import furthest, special
from mpmon.diagnosis.stacks.frames import bare, own_frames
from mpmon.diagnosis.stacks.waits import Wait, user_lines
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.links import stalls
from mpmon.diagnosis.stuck.stuck_set import Ending, StuckSet
from mpmon.diagnosis.suspects import stands_at
from mpmon.model import Stack
from mpmon.numerals import numeral


class Numbered(msgspec.Struct, frozen=True):
    """What the numbers of the Flight Recorders say about a stuck set."""

    odd: tuple[ThreadKey, ...] = ()
    """The ranks that are behind or called something else than most; empty if the numbers do not tell."""
    evidence: tuple[str, ...] = ()
    exact: bool = False
    """The numbers leave nothing to guess, about the ranks in `odd` included."""

    @property
    def certainty(self) -> Certainty:
        """The strongest certainty that may be claimed."""
        return Certainty.PROVED if self.exact else Certainty.LIKELY


def numbered(stuck: StuckSet) -> Numbered:
    """The ranks that are behind or diverged, by sequence numbers; empty if there are no numbers."""
    numbers, members = stuck.job.numbers, sorted({pid for pid, _ in stuck.closed.core})
    lags = {pid: lag for pid in members if (lag := numbers.lag(pid))}
    if lags:
        targets = [target for lag in lags.values() for target in lag.targets if isinstance(target, tuple)]
        evidence = tuple(dict.fromkeys(lag.words for lag in lags.values()))
        if any(pid in lags for pid, _ in targets):
            # They wait for each other in different groups: none of them is the odd one.
            return Numbered((), evidence, exact=all(lag.exact for lag in lags.values()))
        # What they themselves wait in is known from frames only.
        return Numbered(tuple(dict.fromkeys(targets)), evidence)
    clash = next((clash for pid in members if (clash := numbers.clash(pid))), None)
    if clash is None:
        return Numbered()
    odd = tuple((pid, pid) for pid in clash.odd())
    return Numbered(odd, clash.words, exact=clash.exact and bool(odd))


def operations(stuck: StuckSet) -> dict[str, list[ThreadKey]]:
    """The ranks of a stuck set by the operation they wait in; empty unless they wait for each other in collectives.

    If data between them was lost, the operations tell nothing: a rank may have received its part of an operation that
    another still waits in.
    """
    if not stuck.is_mutual or stalls(stuck):
        return {}
    groups: dict[str, list[ThreadKey]] = {}
    for key in sorted(key for key in stuck.closed.core if stuck.wait_state(key).kind is Wait.COLLECTIVE):
        groups.setdefault(stuck.wait_state(key).operation, []).append(key)
    return groups


class Differs(Enum):
    """How some ranks differ from the others."""

    GONE_ON = "it is in a collective, and most others wait for it point to point"
    DIRECTION = "all of them send, or all receive"
    PAIR = "one sends to the other, which receives from it, and the two do not meet: they count differently"
    KEY = "they have passed the place at which they were to set a key for most"
    ELSEWHERE = "they wait for what only those in the collective could bring"
    KEEPS_LOCK = "they have a lock that those wait for who are not in the collective, or whoever answers these"
    STRANGER = (
        "they wait for a process that is no rank, and waits for those in the collective; or most wait so for these"
    )
    LEFT_BACKWARD = "they do not reduce gradients as the others do"
    UNMET = "they send to, or receive from, a rank in a collective, while another one wants to do that with them"
    OPERATION = "they are in another operation"
    NUMBER = "their numbers, sizes or types show that it is another operation of the same name"
    NAME = "they call the group that all make by another name, since they have made more groups, or fewer"
    ROOT = "they name another root"
    GROUP = "they came with another group"
    ARGUMENT = "they have another value at hand"
    THREADS = "two threads of them are in collectives, which a group takes in one order only"
    LINE = "they came there from another line"


class Split(msgspec.Struct, frozen=True):
    """Ranks of a set that do something else than the others."""

    how: Differs
    odd: tuple[ThreadKey, ...]
    groups: dict[str, list[ThreadKey]]
    """By operation; for LINE, by place."""
    name: str = ""
    """For ROOT and ARGUMENT, the name of the argument or variable; for DIRECTION and PAIR, the variable in which one rank
    differs, if any; else the operation that all are in.
    """
    others: tuple[ThreadKey, ...] = ()
    """The ranks that wait for these; for DIRECTION and PAIR, all that do not meet."""
    numbers: Numbered = Numbered()
    why: str = ""
    """Why these, if a comparison of the ways of both tells: `rank 1 is in turn 6, rank 0 in turn 5 of the loop at job.py:30`."""

    @property
    def few_first(self) -> list[tuple[str, list[ThreadKey]]]:
        """The groups, the largest last."""
        return sorted(self.groups.items(), key=lambda row: len(row[1]))

    @property
    def all(self) -> frozenset[ThreadKey]:
        """The ranks in any of the groups."""
        return frozenset(itertools.chain(*self.groups.values()))


def names_of(stuck: StuckSet, keys: Sequence[ThreadKey]) -> str:
    """`rank 2`, `ranks 0-1 and 3`."""
    numbers = [number for key in keys if (number := stuck.job.role(key[0]).rank) is not None]
    if len(keys) > 1 and len(set(numbers)) == len(keys):
        return f"ranks {runs(numbers)}"
    return several([stuck.job.role(key[0]).name for key in keys], most=len(keys))


def split(stuck: StuckSet) -> Split | None:
    """How ranks that wait for each other differ; `None` for sets without collectives, and if nothing tells."""
    groups = operations(stuck)
    if not groups:
        return None
    return _point_to_point(stuck, groups) or _absent(stuck, groups) or _different(stuck, groups)


def _point_to_point(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> Split | None:
    if (end := _gone_on(stuck, groups)) is not None:
        waiting = [key for name, keys in groups.items() if name in _ONE_SIDED for key in keys]
        return Split(Differs.GONE_ON, (end,), groups, others=tuple(waiting))
    if stuck.ending is Ending.CYCLE and all(len(stuck.targets(key)) == 1 for key in stuck.at_end):
        groups = {
            name: found for name, keys in groups.items() if (found := [key for key in keys if key in stuck.at_end])
        }
    how = _directions(groups)
    if how is None or _waits_elsewhere(stuck, groups):
        return None
    cycle = tuple(key for keys in groups.values() for key in keys)
    mains = [(pid, pid) for pid in stuck.job.ranks]
    found = parted([key for key in mains if stuck.wait_state(key).operation in _ONE_SIDED], stuck.job)
    if found is None or found[0] not in cycle:
        return Split(how, cycle, groups, others=cycle)
    return Split(how, found[:1], groups, found[1], others=cycle)


def _waits_elsewhere(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> bool:
    """One of them waits for a single rank, which is in no such operation."""
    those = set(itertools.chain(*groups.values()))
    return any(len(stuck.targets(key)) == 1 and not those.issuperset(stuck.targets(key)) for key in those)


def _directions(groups: dict[str, list[ThreadKey]]) -> Differs | None:
    if not groups or not set(groups) <= _SENDS | _RECEIVES:
        return None
    return Differs.DIRECTION if set(groups) <= _SENDS or set(groups) <= _RECEIVES else Differs.PAIR


_ONE_SIDED = POINT_TO_POINT | {ASYNCHRONOUS}
_SENDS = frozenset({"send", "isend", "send_object_list"})
_RECEIVES = frozenset({"recv", "irecv", "recv_object_list"})


def _gone_on(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> ThreadKey | None:
    """A rank in a collective for which more ranks wait point to point than are in that collective."""
    waiting = [key for name, keys in groups.items() if name in _ONE_SIDED for key in keys]
    others = [key for name, keys in groups.items() if name not in _ONE_SIDED for key in keys]
    ends = {_leads_to(stuck, key, waiting) for key in waiting}
    end = next(iter(ends), None)
    return end if len(ends) == 1 and end in others and len(waiting) > len(others) else None


def _leads_to(stuck: StuckSet, key: ThreadKey, waiting: list[ThreadKey]) -> ThreadKey | None:
    """The first that waits for nobody point to point, following each rank's only target; `None` if there is none."""
    seen: list[ThreadKey] = []
    while key in waiting:
        target = stuck.targets(key)[0] if len(stuck.targets(key)) == 1 else None
        if not isinstance(target, tuple) or target in seen:
            return None
        seen.append(key)
        key = target
    return key


_FOR_OTHERS = frozenset({
    Wait.STORE_KEY, Wait.RENDEZVOUS, Wait.SOCKET, Wait.QUEUE_GET, Wait.PROCESS_EVENT, Wait.FILE_MARK,
})  # fmt: skip
"""Waits of a rank that only other processes can end."""


def _absent(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> Split | None:
    """Ranks that are no longer in a collective."""
    there = tuple(key for keys in groups.values() for key in keys)
    if (elsewhere := _elsewhere(stuck)) and (keeps := _with_locks(stuck, there)):
        return Split(Differs.KEEPS_LOCK, keeps, groups, others=elsewhere)
    absent = tuple(key for key in elsewhere if stuck.wait_state(key).kind in _FOR_OTHERS)
    if not absent or set(stuck.at_end).isdisjoint((*absent, *there)):
        # All wait for one that is no rank.
        return None
    if len(absent) > len(there) and all(stuck.wait_state(key).kind is Wait.STORE_KEY for key in absent):
        return Split(Differs.KEY, there, groups, others=absent)
    if not all(_waits_for_stranger(stuck, key) for key in absent):
        return Split(Differs.ELSEWHERE, absent, groups, others=there)
    odd, others = (there, absent) if len(absent) > len(there) else (absent, there)
    return Split(Differs.STRANGER, odd, groups, others=others)


def _elsewhere(stuck: StuckSet) -> tuple[ThreadKey, ...]:
    """The main threads of ranks in the set that are in no collective."""
    mains = (key for key in sorted(stuck.closed.core) if key[0] == key[1] and stuck.job.role(key[0]).is_rank)
    return tuple(key for key in mains if stuck.wait_state(key).kind is not Wait.COLLECTIVE)


def _with_locks(stuck: StuckSet, keys: tuple[ThreadKey, ...]) -> tuple[ThreadKey, ...]:
    """The threads among `keys` that hold a lock another member waits for."""
    needs = (edge for key in stuck.closed.members if (edge := stuck.graph.node(key).edge) and edge.holder_known)
    held = {target for edge in needs for target in edge.targets}
    return tuple(key for key in keys if key in held)


def _waits_for_stranger(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread waits for a non-rank process of the set, which in turn waits for something that another process provides."""
    pids = [target[0] for target in stuck.targets(key) if isinstance(target, tuple)]
    return bool(pids) and all(
        not stuck.job.role(pid).is_rank and stuck.wait_state((pid, pid)).kind in _FOR_OTHERS for pid in pids
    )


def _different(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> Split | None:
    numbers = numbered(stuck)
    if set(groups) <= POINT_TO_POINT and not numbers.evidence and _waits_elsewhere(stuck, groups):
        return None
    if len(groups) == 1:
        return _same_name(stuck, groups, numbers)
    odd, why = (numbers.odd, "") if numbers.odd else odd_ones_out(stuck, groups)
    if odd and BACKWARD in groups and set(odd).isdisjoint(groups[BACKWARD]):
        return Split(Differs.LEFT_BACKWARD, odd, groups, numbers=numbers)
    # A non-root rank of a gather, or the root of a broadcast, only sends and may have moved on.
    for keys in groups.values() if not numbers.odd else ():
        if len(keys) > 1 and (found := with_another_root(keys, stuck.job)):
            return Split(Differs.ROOT, tuple(found[0]), groups, found[1], tuple(keys))
    how = Differs.UNMET if _meets_nobody(stuck, odd) else Differs.OPERATION
    return Split(how, odd, groups, numbers=numbers, why=why)


def _meets_nobody(stuck: StuckSet, odd: Sequence[ThreadKey]) -> bool:
    """One of these ranks sends to, or receives from, a rank in a collective, while another one wants the opposite of it."""
    calls = {key: stuck.wait_state(key).operation for key in stuck.closed.core}
    for one in odd:
        opposite = (
            _RECEIVES if calls.get(one) in _SENDS else _SENDS if calls.get(one) in _RECEIVES else frozenset[str]()
        )
        asked = any(call in opposite and one in stuck.targets(key) for key, call in calls.items())
        if asked and not any(
            calls.get(target) in opposite for target in stuck.targets(one) if isinstance(target, tuple)
        ):
            return True
    return False


def _same_name(stuck: StuckSet, groups: dict[str, list[ThreadKey]], numbers: Numbered) -> Split | None:
    ((name, keys),) = groups.items()
    if numbers.evidence:
        return Split(Differs.NUMBER, numbers.odd, groups, numbers=numbers)
    if named := with_another_name(keys, stuck.job):
        return Split(Differs.NAME, named, groups, name, tuple(keys))
    if found := with_another_root(keys, stuck.job):
        return Split(Differs.ROOT, tuple(found[0]), groups, found[1], tuple(keys))
    odd, waiting = astray(keys, stuck.job)
    if odd:
        return Split(Differs.GROUP, tuple(odd), groups, others=tuple(waiting))
    if found := differing(keys, stuck.job):
        return Split(Differs.ARGUMENT, tuple(found[0]), groups, found[1])
    if others := _other_threads(stuck, keys):
        everybody = {key[0] for key in others} == {key[0] for key in keys}
        return Split(Differs.THREADS, tuple(keys) if everybody else others, groups, others=others)
    places: dict[str, list[ThreadKey]] = {}
    for key in keys:
        places.setdefault(str(stands_at(stuck.job, key)), []).append(key)
    if len(places) < 2 or name == BACKWARD or _elsewhere(stuck):
        return None
    odd, why = odd_ones_out(stuck, places)
    return Split(Differs.LINE, odd, places, name, why=why)


def _other_threads(stuck: StuckSet, keys: list[ThreadKey]) -> tuple[ThreadKey, ...]:
    """Further threads of these ranks that are in collectives, of the same group as far as is known."""
    pids = {key[0] for key in keys}
    ours = [key for pid in sorted(pids) for key in stuck.job.threads(pid) if key not in keys]
    ours = [key for key in ours if stuck.job.is_of_group(keys[0], key) is not False]
    return tuple(key for key in ours if stuck.wait_state(key).kind is Wait.COLLECTIVE)


def odd_ones_out(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> tuple[tuple[ThreadKey, ...], str]:
    """The ranks that do something else than most; and why these, where a comparison of their ways told.

    On a tie: not those in a backward pass, which every rank reaches in its turn; those that are where only their number takes
    them; those that have come further in the program, for they have passed what the others wait in; those in a barrier, which
    a rank reaches that left the loop early; else the lowest rank, since code behind `if rank == 0` is what usually diverges.
    """
    weights = {
        name: sum(stuck.job.world.weight(key[0]) for key in (*keys, *_beside(stuck, keys)))
        for name, keys in groups.items()
    }
    stacks = {name: stack for name, keys in groups.items() if (stack := _own_way(stuck.job, keys[0]))}
    is_tie = len(groups) == 2 and len(set(weights.values())) == 1 and BACKWARD not in groups
    ahead = (special(stacks) or furthest(stacks)) if is_tie else None
    if ahead:
        other = next(keys for name, keys in groups.items() if name != ahead.name)
        odd = groups[ahead.name]
        return tuple(odd), ahead.why(names_of(stuck, odd), names_of(stuck, other))

    def oddness(item: tuple[str, list[ThreadKey]]) -> tuple[int, bool, bool, int]:
        name, keys = item
        rank = min((stuck.job.role(key[0]).rank or 0 for key in keys), default=0)
        return weights[name], name == BACKWARD, name not in BARRIERS, rank

    return tuple(min(groups.items(), key=oddness)[1]), ""


def _beside(stuck: StuckSet, keys: Sequence[ThreadKey]) -> list[ThreadKey]:
    """The ranks outside of the core that wait in the same operation of the same group as these, at the same line."""
    job, core = stuck.job, set(stuck.closed.core)
    places = {_place(job, key): key for key in keys}
    outside = (
        key for pid in job.ranks if (key := (pid, pid)) not in core and job.wait_state(key).kind is Wait.COLLECTIVE
    )
    pairs = ((key, places.get(_place(job, key))) for key in outside)
    return [key for key, alike in pairs if alike and job.is_of_group(key, alike) is not False]


def _place(job: JobState, key: ThreadKey) -> tuple[str, Place | None]:
    """The operation that a thread is in, and the line that called it."""
    return job.wait_state(key).operation, stands_at(job, key)


def _own_way(job: JobState, key: ThreadKey) -> Stack | None:
    """The stack of a rank, without the turns of loops in a child of os.fork(): it may be in the loop that started it."""
    stack = job.stacks.get(key)
    if stack and job.is_forked(key[0]) and len(list(own_frames(stack))) == len(stack.frames):
        return msgspec.structs.replace(stack, turns=None)
    return stack


def astray(keys: list[ThreadKey], job: JobState) -> tuple[list[ThreadKey], list[ThreadKey]]:
    """Ranks at a line in another group than those that wait for them there, and the latter; empty if all are in one
    group, or if that is not known.

    If the others do not belong to the group that one rank entered, that rank is the odd one: in the others' group all
    could continue. Else it is the one most ranks wait for; on a tie, any of them.
    """
    strangers = _pairs(keys, job, _expects_stranger)
    if strangers and not set(strangers) & set(itertools.chain(*strangers.values())):
        return list(strangers), list(dict.fromkeys(itertools.chain(*strangers.values())))
    pairs = _pairs(keys, job, _expects)
    most = max(map(len, pairs.values()), default=0)
    odd = [one for one, others in pairs.items() if len(others) == most]
    return odd, list(dict.fromkeys(other for one in odd for other in pairs[one]))


def _pairs(
    keys: list[ThreadKey], job: JobState, expects: Callable[[ThreadKey, ThreadKey, JobState], bool]
) -> dict[ThreadKey, list[ThreadKey]]:
    """By rank, the ranks that expect it."""
    found = {one: [other for other in keys if expects(other, one, job)] for one in keys}
    return {one: others for one, others in found.items() if others}


def _expects(other: ThreadKey, one: ThreadKey, job: JobState) -> bool:
    """`other` is at the same line as `one`, in a collective of a different group to which `one` belongs."""
    apart = stands_at(job, other) == stands_at(job, one) and job.is_of_group(other, one) is False
    return apart and job.role(one[0]).rank in job.group_of(other)


def _expects_stranger(other: ThreadKey, one: ThreadKey, job: JobState) -> bool:
    """The same, and `other` does not belong to the group whose collective `one` entered."""
    return _expects(other, one, job) and job.role(other[0]).rank not in job.group_of(one)


BARRIERS = frozenset({"barrier", "monitored_barrier"})
"""Operations that carry no data."""

ROOTS = ("src", "dst", "group_src", "group_dst")
"""Arguments of torch/distributed/distributed_c10d.py that name the rank which sends to all, or receives from all."""


def named_root(key: ThreadKey, job: JobState) -> dict[str, str]:
    """The arguments of a rank's call that name the root of its operation; empty if there are none."""
    frame = job.wait_state(key).frame
    return {name: value for name, value in ((frame and frame.known) or {}).items() if name in ROOTS}


def named_group(key: ThreadKey, job: JobState) -> str | None:
    """The name by which a rank meets the others of a group that it makes: a count of its groups, if it has made none by name."""
    stack = job.stacks.get(key)
    known = (frame.known or {} for frame in (stack.frames if stack else ()))
    return next((names["group_name"] for names in known if "group_name" in names), None)


def with_another_name(keys: list[ThreadKey], job: JobState) -> tuple[ThreadKey, ...]:
    """Of ranks that make a group whose name is a count, those with another count than most; on a tie, with the lower one."""
    counts = {key: count for key in keys if (count := numeral(named_group(key, job) or "")) is not None}
    by_count: dict[int, list[ThreadKey]] = {}
    for key, count in counts.items():
        by_count.setdefault(count, []).append(key)
    if len(counts) < len(keys) or len(by_count) != 2:
        return ()
    return tuple(min(by_count.items(), key=lambda row: (len(row[1]), row[0]))[1])


def with_another_root(keys: list[ThreadKey], job: JobState) -> tuple[list[ThreadKey], str] | None:
    """Of ranks in the same operation, the ranks that name a different root than most, and the name of that argument.

    On a tie: the ranks whose root is not rank 0, the default.
    """
    roots = {key: root for key in keys if (root := named_root(key, job))}
    return _minority(keys, roots) or _not_the_usual(keys, roots)


def _not_the_usual(
    keys: list[ThreadKey], roots: Mapping[ThreadKey, Mapping[str, str]]
) -> tuple[list[ThreadKey], str] | None:
    for name in ROOTS if len(roots) == len(keys) else ():
        values = [roots[key].get(name) for key in keys]
        if len(set(values)) == 2 and 2 * values.count("0") == len(keys):
            return [key for key, value in zip(keys, values, strict=True) if value != "0"], name
    return None


def differing(keys: list[ThreadKey], job: JobState) -> tuple[list[ThreadKey], str] | None:
    """Of ranks at the same line, the ranks with a different value there than most, and the name of the variable."""
    frames = {key: next(iter(user_lines(stack)), None) for key in keys if (stack := job.stacks.get(key))}
    return _minority(keys, {key: frame.plain for key, frame in frames.items() if frame and frame.plain})


def parted(keys: list[ThreadKey], job: JobState) -> tuple[ThreadKey, str] | None:
    """Of ranks at different places, the only one with another value than all others in a function that all of them are in, and
    that variable: `plan` in microbatch().

    What only the first or the last rank has may come of its number, as at the ends of a pipeline, and so may what only those in
    between have: another rank in between has to be like the ends.
    """
    inner = sorted(keys, key=lambda key: job.role(key[0]).rank or 0)[1:-1]
    if len(inner) < 2 or any(job.role(key[0]).rank is None for key in keys):
        return None
    values: dict[ThreadKey, dict[str, int]] = {}
    for key in keys:
        frames = user_lines(stack) if (stack := job.stacks.get(key)) else ()
        rows = ((frame.function, frame.plain) for frame in frames if frame.plain)
        values[key] = {
            f"`{name}` in {bare(function)}()": value for function, row in rows for name, value in row.items()
        }
    odd, name = _minority(keys, values) or ([], "")
    return (odd[0], name) if len(odd) == 1 and odd[0] in inner else None


def _minority(
    keys: list[ThreadKey], values: Mapping[ThreadKey, Mapping[str, Hashable]]
) -> tuple[list[ThreadKey], str] | None:
    """The ranks with another value than most for one name, and that name.

    Values that differ on every rank, such as its number, say nothing.
    """
    if len(values) < len(keys) or len(keys) < 3:
        return None
    for name in sorted(set.intersection(*(set(named) for named in values.values()))):
        groups: dict[Hashable, list[ThreadKey]] = {}
        for key, named in values.items():
            groups.setdefault(named[name], []).append(key)
        fewest = min(groups.values(), key=len)
        if len(groups) == 2 and 2 * len(fewest) < len(keys):
            return fewest, name
    return None
