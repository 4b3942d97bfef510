"""Which process is what: launcher, rank K, dataloader worker K … from outside, with nothing prepared in the job.

Sources, the surest first: frames only one kind of process has (`_worker_loop`, `_process_worker`), locals of those
frames (`worker_id`), names torch gives its processes (`pt_data_worker`), command lines of multiprocessing's helpers,
and RANK in the environment. A role once seen is kept: a process that exits or can no longer be read is still what it
was.

`mp.spawn` sets RANK after the start, so /proc lacks it there; the index then comes from the frame of its wrapper.
DataLoader workers inherit RANK from their rank and are not ranks themselves.

A child of multiprocessing is named after the function it was started with. If no frame shows that (a subclass of
`Process` has its own `run`, a zombie has no frames), it gets the name of its `Process`, if its parent's program still
has that.

If the root is not Python, it and everything between it and the first Python below it only start the job: a shell that
runs a script, `timeout`, `mpirun`, init. The oldest Python below them is the main program.

- `role`: what a process can be; `reader`: what shows it;
- `programs`, `names`, `rank_numbers`: which program it runs, how children are called, and the numbers of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mpmon.diagnosis.roles.names import (
    PROCESS_FILE,
    given_name,
    given_names,
    named_process,
    target_of,
    told_apart,
    with_given,
)
from mpmon.diagnosis.roles.programs import LONGEST_NAME, called, is_python, main_programs, topmost_python
from mpmon.diagnosis.roles.rank_numbers import numbered_ranks
from mpmon.diagnosis.roles.reader import Reader, Told
from mpmon.diagnosis.roles.role import HELPERS, LASTING, POOL_WORKERS, SERVICE_ROLES, WORKERS, GivenNames, Role
from mpmon.model import Process, Stack

__all__ = [
    "HELPERS", "LASTING", "LONGEST_NAME", "POOL_WORKERS", "PROCESS_FILE", "SERVICE_ROLES", "WORKERS", "GivenNames", "Role",
    "called", "given_name", "given_names", "is_python", "named_process", "roles", "still_hold", "target_of", "topmost_python",
]  # fmt: skip


def roles(
    processes: Sequence[Process],
    stacks: Mapping[int, Sequence[Stack]],
    root_pid: int,
    known: Mapping[int, Role],
    thread_names: Mapping[int, frozenset[str]],
    *,
    given: GivenNames,
) -> dict[int, Role]:
    """The role of every process, by pid. `known` are those of the previous round; an unchanged role is the same object."""
    by_pid = {process.pid: process for process in processes}
    mains, starters = main_programs(processes, stacks, root_pid)
    told = Told({})
    for process in sorted(processes, key=lambda row: (row.start_time, row.pid)):
        names = thread_names.get(process.pid, frozenset())
        rows = stacks.get(process.pid, ())
        role = _role(process, by_pid, rows, mains, told, names=names, given=given, starters=starters)
        before = known.get(process.pid)
        told.add(process.pid, before if before and _holds(before, role) else role)
    found = told.roles
    numbered = numbered_ranks([row for row in processes if not row.ended], found, known)
    return {**found, **told_apart(found), **numbered}


def still_hold(
    known: Mapping[int, Role],
    processes: Sequence[Process],
    stacks: Mapping[int, Sequence[Stack]],
    root_pid: int,
    thread_names: Mapping[int, frozenset[str]],
    *,
    given: GivenNames,
) -> bool:
    """Whether the processes with new `stacks` keep their roles; if so, and `given` is unchanged, all other processes do too."""
    by_pid = {process.pid: process for process in processes}
    mains = frozenset(pid for pid, role in known.items() if role.kind == "main") or frozenset({root_pid})
    told = Told({**known})
    return all(
        pid in known
        and pid in by_pid
        and _holds(known[pid], _role(by_pid[pid], by_pid, rows, mains, told, names=thread_names[pid], given=given))
        for pid, rows in stacks.items()
    )


def _role(
    process: Process,
    by_pid: Mapping[int, Process],
    stacks: Sequence[Stack],
    mains: frozenset[int],
    told: Told,
    *,
    names: frozenset[str],
    given: GivenNames,
    starters: frozenset[int] = frozenset(),
) -> Role:
    main = next((stack for stack in stacks if stack.tid == process.pid), None)
    parent = _client(process, by_pid, told.roles)
    reader = Reader(process, main, by_pid.get(parent or 0), told, names, given=given)
    return reader.starter() if process.pid in starters else reader.role(mains)


def _client(process: Process, by_pid: Mapping[int, Process], found: Mapping[int, Role]) -> int | None:
    """The process it works for: its parent, or the fork server's parent."""
    parent = process.ppid
    while parent in by_pid and found.get(parent) and found[parent].kind == "forkserver":
        parent = by_pid[parent].ppid
    return parent if parent in by_pid else None


def _holds(before: Role, now: Role) -> bool:
    return before in (now, with_given(now)) or _surer(before, now)


def _surer(before: Role, now: Role) -> bool:
    """A stack may be missing once; what an earlier one showed still holds."""
    if not _is_vague(before) and _is_vague(now):
        return True
    unsure = (now.guessed and not before.guessed) or (before.target_known and not now.target_known)
    return before.kind == now.kind and (unsure or now.nameless or now.name == "rank ?")


def _is_vague(role: Role) -> bool:
    """A later sample may show it to be something else."""
    return role.starts or role.kind in ("subprocess", "other", "process", "main")
