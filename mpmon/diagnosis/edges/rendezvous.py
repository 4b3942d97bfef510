"""Ranks that wait for others in init_process_group(), and for keys of the store."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mpmon.diagnosis.edges.dead import dead_ranks, dead_relatives
from mpmon.diagnosis.edges.ranks import with_rank_that_ended
from mpmon.diagnosis.graph import Absent, External, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.ranks.addresses import may_be_the_same, rendezvous_address, store_address
from mpmon.diagnosis.roles import called, target_of
from mpmon.diagnosis.stacks.frames import bare, is_user, own_frames
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.numerals import numeral


def rendezvous(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Observed ranks that are not in the rendezvous; else ranks that were never started; of a launcher, those of other nodes."""
    if job.role(key[0]).kind == "launcher":
        others = External("the launchers of the other nodes", moves=_may_be_enough(job.processes[key[0]].cmdline or ()))
        return WaitEdge((others,), words="the other nodes to join")
    ranks = job.ranks
    if dead := dead_ranks(job, key[0], job.world.size, len(ranks)):
        return WaitEdge(tuple(dead), every=True, words="a rank that has ended, in init_process_group")
    absent = [
        (pid, pid) for pid in ranks
        if pid != key[0] and job.wait_state((pid, pid)).kind not in (Wait.RENDEZVOUS, Wait.COLLECTIVE)
    ]  # fmt: skip
    if absent:
        names = job.names(absent)
        return WaitEdge(tuple(absent), every=True, words=f"{names} in init_process_group")
    if edge := _numbered_twice(job, key):
        return edge
    if away := job.world.elsewhere:
        outside = job.world.outside(away)
        return WaitEdge(
            (*outside, *_on_their_way(job, key)), words=f"{several([end.who for end in outside])} to arrive"
        )
    size = job.world.size
    if len(ranks) < size:
        here = {job.role(pid).rank for pid in ranks}
        missing = several([f"rank {number}" for number in range(size) if number not in here])
        late = _started_alike(job, key)
        if len(ranks) + len(late) == size:
            names = job.names(late)
            return WaitEdge(
                tuple((pid, pid) for pid in late), every=True, words=f"{names} ({missing}) in init_process_group"
            )
        why = f"world size is {size}, but only {len(ranks)} ranks run here: {missing} never arrived"
        nobody = NoReleaser(why, _who_starts_ranks(job, key), Absent.RANK_NEVER_CAME)
        return WaitEdge((nobody, *_on_their_way(job, key)), words=f"{missing} to arrive", evidence=why)
    # All are there: the last one to come may still end it.
    others = ((pid, pid) for pid in ranks if pid != key[0] and _meet(job, key[0], pid))
    return WaitEdge((External("the store, or ranks on other machines"), *others), words="the other ranks to arrive")


def _may_be_enough(cmdline: Sequence[str]) -> bool:
    """A launcher of `--nnodes=MIN:MAX` has perhaps enough nodes already, and soon begins without the others."""
    told = " ".join(cmdline)
    return re.search(r"--nnodes[= ]\d+:\d+", told) is not None


def _who_starts_ranks(job: JobState, key: ThreadKey) -> tuple[int, ...]:
    """The program that starts the ranks; the ranks, if that is a library's, which starts as many as it was told to."""
    parent = job.role(key[0]).parent
    stack = job.stacks.get((parent, parent)) if parent else None
    if stack and not any(is_user(frame.file) for frame in stack.frames):
        return tuple(pid for pid in job.ranks if job.wait_state((pid, pid)).kind is Wait.RENDEZVOUS)
    return (parent,) if parent else ()


def _numbered_twice(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Two ranks at one rendezvous have the same number, so another number is missing."""
    place = _meets_at(job, key[0])
    met = [pid for pid in job.ranks if _meets_at(job, pid) == place] if place else []
    numbers = {pid: _number_in_group(job, pid) for pid in met}
    twice = [pid for pid in met if numbers[pid] is not None and list(numbers.values()).count(numbers[pid]) > 1]
    if not twice:
        return None
    size = job.role(key[0]).world_size or 0
    missing = several([f"rank {number}" for number in range(size) if number not in numbers.values()])
    same = several([f"pid {pid}" for pid in twice if numbers[pid] == numbers[twice[0]]])
    why = f"{same} have the same number, rank {numbers[twice[0]]}" + (
        f", and no process is {missing}" if missing else ""
    )
    nobody = NoReleaser(why, tuple(twice), Absent.RANK_NEVER_CAME)
    return WaitEdge((nobody, *_on_their_way(job, key)), words=f"{missing or 'the others'} to arrive", evidence=why)


def _meet(job: JobState, one: int, other: int) -> bool:
    """Both are in a rendezvous, and nothing shows that it is not the same; where one looks for the store that another has found,
    its environment shows nothing.
    """
    if job.wait_state((other, other)).kind is not Wait.RENDEZVOUS:
        return False
    mine, others = store_address(job, one), store_address(job, other)
    if mine and others:
        return may_be_the_same(mine, others)
    return bool(mine or others) or _meets_at(job, one) == _meets_at(job, other)


def _meets_at(job: JobState, pid: int) -> tuple[str, str] | None:
    """Where and with how many others a rank meets, by the call or by its environment; `None` if that cannot be determined."""
    address = rendezvous_address(job, pid)
    if job.wait_state((pid, pid)).kind is not Wait.RENDEZVOUS or address is None:
        return None
    given = _known_in_init(job, pid).get("world_size", "-1")
    size = (job.processes[pid].environment or {}).get("WORLD_SIZE") if given == "-1" else given
    return None if size is None else (address, size)


def _number_in_group(job: JobState, pid: int) -> int | None:
    """The process's rank as known inside `init_process_group`, which may differ from the environment's; else its role's."""
    number = numeral(_known_in_init(job, pid).get("rank", ""))
    return job.role(pid).rank if number is None else number


def _known_in_init(job: JobState, pid: int) -> dict[str, str]:
    stack = job.stacks.get((pid, pid))
    frames = stack.frames if stack else ()
    return next((row.known for row in frames if row.known and bare(row.function) == "init_process_group"), {})


def _started_alike(job: JobState, key: ThreadKey) -> list[int]:
    """Processes of the same parent that run the function that this rank runs, and are no rank yet."""
    target, parent = _target(job, key), job.starter(key[0])
    alike = [pid for pid in job.clients.get(parent, ()) if pid not in job.ranks and job.is_alive(pid)]
    return [pid for pid in alike if target is not None and job.role(pid).target == target]


def _target(job: JobState, key: ThreadKey) -> str | None:
    """The function that a process was started to run."""
    stack = job.stacks.get(key)
    return target_of(own_frames(stack)) if stack else None


def _on_their_way(job: JobState, key: ThreadKey) -> list[ThreadKey]:
    """Processes that may yet become a rank: those started like this one, and their parent while it is running."""
    parent, alike = job.starter(key[0]), _target(job, key)
    # One rank may have started the others.
    started = (*job.clients.get(parent, ()), *job.clients.get(key[0], ()))
    children = [pid for pid in started if job.is_alive(pid)]
    found = [
        (pid, pid) for pid in children
        if _may_become_rank(job, pid, alike) or _is_given_rank(job, pid, key[0]) or _runs_the_same(job, pid, key[0])
    ]  # fmt: skip
    starts = parent in job.processes and job.wait_state((parent, parent)).kind is Wait.RUNNING
    return [*found, *([(parent, parent)] if starts else [])]


def _may_become_rank(job: JobState, pid: int, target: str | None) -> bool:
    role = job.role(pid)
    return not role.target_known or (target is not None and role.target == target)


def _runs_the_same(job: JobState, pid: int, other: int) -> bool:
    """A program of its own, of the same parent, started with the script or module that the other process runs."""
    one, two = job.processes[pid], job.processes[other]
    alike = bool(called(one)) and called(one) == called(two)
    return alike and pid != other and job.starter(pid) == job.starter(other) and job.role(pid).target is None


def _is_given_rank(job: JobState, pid: int, other: int) -> bool:
    """The process has a rank number of its own in its environment, as Lightning gives to all ranks but the first; ordinary
    children of a rank inherit that rank's number.
    """
    given, others = ((job.processes[process].environment or {}) for process in (pid, other))
    return any(name in given and given[name] != others.get(name) for name in ("RANK", "LOCAL_RANK"))


def store_key(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Any other client of the store may set the key: the ranks, the process that serves the store, their parent, those that wait
    for keys themselves, and those that were started like this one and may yet become a client.
    """
    if edge := with_rank_that_ended(job, key):
        return edge
    dead = dead_relatives(job, key[0], certain=False)
    waiting = (pid for pid in job.processes if job.wait_state((pid, pid)).kind is Wait.STORE_KEY)
    coming = (pid for pid, _ in _on_their_way(job, key))
    clients = {*job.ranks, *job.store_servers, *waiting, *coming, job.starter(key[0])} - {key[0]}
    alive = tuple((pid, pid) for pid in sorted(clients) if job.may_act(pid))
    outside = job.world.outside(job.world.elsewhere)
    if not alive and not dead and not outside:
        return WaitEdge(
            (External("a client of the store on another machine", of_job=True),), words="a key of the store"
        )
    return WaitEdge((*alive, *dead, *outside), words="a key of the store that another process sets")
