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
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from mpmon.diagnosis import libraries
from mpmon.diagnosis.frames import bare, calls, is_machinery, own_frames
from mpmon.diagnosis.libraries import LAUNCHERS, LAUNCHES, RANK_THREADS
from mpmon.diagnosis.libraries.rows import HelperRow
from mpmon.model import Frame, KnownChild, Process, Row, Stack
from mpmon.numerals import numeral

SPAWN_FILE = "torch/multiprocessing/spawn.py"
PROCESS_FILE = "multiprocessing/process.py"
_BEGINS = (PROCESS_FILE, ("_bootstrap",))
"""The frame below which a `Process` runs its target."""

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox"})
"""Programs that run command scripts."""


class Role(Row, frozen=True, kw_only=True):
    """What one process is in the job."""

    name: str
    """As in the report: `rank 2`, `dataloader worker 1`, `main` …"""
    kind: str
    """The name without its number: `rank`, `dataloader worker`, `pool worker`, `process`, `main` …"""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    parent: int | None = None
    """The process it works for; for a worker started by a fork server, the server's own parent."""
    guessed: bool = False
    """The number is its place among its siblings, not its own number; for a launcher: it counts as one only because it
    is not Python and Python runs below it.
    """
    target_known: bool = True
    """`False` for a child of multiprocessing not seen to run its function: it has the name of its `Process`, if any."""
    target: str | None = None
    """The function that a child of multiprocessing runs."""
    given: str | None = None
    """The name of its `Process`, where its function is known as well."""
    nameless: bool = False
    """Only its parent is known: it was made by `os.fork`, or the name of its `Process` cannot be read."""

    @property
    def serves(self) -> bool:
        """The process works on request, so it is legitimately idle without one."""
        return self.kind in SERVICE_ROLES

    @property
    def starts(self) -> bool:
        """The process is not Python and started the job; what else it does, and whether it ever ends, is unknown."""
        return self.kind == "shell" or (self.kind == "launcher" and self.guessed)


RENDEZVOUS_FILE = "torch/distributed/rendezvous.py"

_ANOTHER = Role(name="another process", kind="other")

GivenNames = Mapping[tuple[int, int], str]
"""Names that programs give their children, by the pids of the program and of the child."""

LONGEST_NAME = 40
"""Longest name shown, of those that programs give, in characters."""

HELPERS = frozenset(row.kind for row in libraries.HELPERS)
"""Processes that only serve others and never count for progress by themselves."""

WORKERS = frozenset(row.kind for row in libraries.WORKERS)
"""Processes that work on request."""

POOL_WORKERS = frozenset(row.kind for row in libraries.WORKERS if row.of_pool)
"""Kinds of workers that compute the results of a pool."""

SERVICE_ROLES = HELPERS | WORKERS


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
    mains, starters = _main_programs(processes, stacks, root_pid)
    told = _Told({})
    for process in sorted(processes, key=lambda row: (row.start_time, row.pid)):
        names = thread_names.get(process.pid, frozenset())
        rows = stacks.get(process.pid, ())
        role = _role(process, by_pid, rows, mains, told, names=names, given=given, starters=starters)
        before = known.get(process.pid)
        told.add(process.pid, before if before and _holds(before, role) else role)
    found = told.roles
    numbered = _numbered_ranks([row for row in processes if not row.ended], found, known)
    return {**found, **_told_apart(found), **numbered}


class _Told:
    """The roles of processes, and how many of those with the same parent are alike."""

    def __init__(self, roles: dict[int, Role]) -> None:
        self.roles = roles

    def add(self, pid: int, role: Role) -> None:
        """One more role."""
        self._alike.update(_likeness(role))
        self.roles[pid] = role

    def of_kind(self, kind: str, parent: int | None) -> int:
        """The number of children of a parent that are of a kind."""
        return self._alike[parent, kind]

    def nameless(self, parent: int | None) -> int:
        """The number of children of a parent of which nothing else is known."""
        return self._alike[parent, ""]

    @cached_property
    def _alike(self) -> Counter[tuple[int | None, str]]:
        """By parent and kind, which is empty for the nameless."""
        return Counter(row for role in self.roles.values() for row in _likeness(role))


def _likeness(role: Role) -> tuple[tuple[int | None, str], ...]:
    return ((role.parent, role.kind), (role.parent, "")) if role.nameless else ((role.parent, role.kind),)


def _told_apart(found: Mapping[int, Role]) -> dict[int, Role]:
    """Distinguish processes that run the same function by the names that the program gives them."""
    count = Counter(role.name for role in found.values())
    return {pid: _with_given(role) for pid, role in found.items() if role.given and count[role.name] > 1}


def _with_given(role: Role) -> Role:
    return msgspec.structs.replace(role, name=f"process {role.target} ({role.given})") if role.given else role


def _numbered_ranks(alive: Sequence[Process], found: Mapping[int, Role], known: Mapping[int, Role]) -> dict[int, Role]:
    """Numbers for ranks that do not say theirs, if all ranks of the job run here: by LOCAL_RANK, and the last rank
    without a number gets the last number (Lightning starts the others from rank 0 itself, which has no variables).
    Else, as a guess, by their place among the ranks that one process started.
    """
    ranks = {row.pid: found[row.pid] for row in alive if found[row.pid].kind == "rank"}
    size = max((role.world_size or 0 for role in ranks.values()), default=0)
    numbers = {
        pid: number for pid, role in ranks.items()
        if (number := role.local_rank if role.rank is None else role.rank) is not None and not role.guessed
    }  # fmt: skip
    missing = [pid for pid in ranks if pid not in numbers]
    if len(set(numbers.values())) < len(numbers):
        return {}
    left = set(range(size)) - set(numbers.values())
    if len(ranks) == size and len(missing) == len(left) == 1:
        numbers.update(zip(missing, left, strict=True))
        missing = []
    told = {pid: role for pid, role in ranks.items() if role.rank is None and pid in numbers}
    return {
        **{pid: _with_number(role, numbers[pid], size) for pid, role in told.items()},
        **(_guessed_ranks(missing, alive, ranks, known) if len(missing) == len(ranks) and size <= len(ranks) else {}),
    }


def _guessed_ranks(
    pids: Sequence[int], alive: Sequence[Process], ranks: Mapping[int, Role], known: Mapping[int, Role]
) -> dict[int, Role]:
    """By place among the ranks of one parent; unchanged if no rank was added since."""
    before = {pid: role for pid in pids if (role := known.get(pid)) and role.guessed and role.kind == "rank"}
    if len(before) == len(pids):
        return before
    if len({ranks[pid].parent for pid in pids}) > 1:
        return {}
    eldest = sorted((row.start_time, row.pid) for row in alive if row.pid in ranks)
    return {
        pid: msgspec.structs.replace(_with_number(ranks[pid], place, ranks[pid].world_size), guessed=True)
        for place, (_, pid) in enumerate(eldest)
    }


def _with_number(role: Role, number: int, size: int | None) -> Role:
    return msgspec.structs.replace(role, name=f"rank {number}", rank=number, world_size=size or role.world_size)


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
    told = _Told({**known})
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
    told: _Told,
    *,
    names: frozenset[str],
    given: GivenNames,
    starters: frozenset[int] = frozenset(),
) -> Role:
    main = next((stack for stack in stacks if stack.tid == process.pid), None)
    parent = _client(process, by_pid, told.roles)
    reader = _Reader(process, main, by_pid.get(parent or 0), told, names, given=given)
    return reader.starter() if process.pid in starters else reader.role(mains)


def _main_programs(
    processes: Sequence[Process], stacks: Mapping[int, Sequence[Stack]], root_pid: int
) -> tuple[frozenset[int], frozenset[int]]:
    """The main program of each machine, and the processes that only started it: the root, if it is not Python, and all
    between it and the program.
    """
    by_pid = {process.pid: process for process in processes}
    alive = [process for process in processes if not process.ended]
    found = [by_pid[pid] for pid in topmost_python(alive, root_pid, lambda row: row.pid in stacks or is_python(row))]
    if not found:
        root = by_pid.get(root_pid)
        return frozenset({root_pid}), frozenset({root_pid} if root and program(root) in SHELLS else ())
    mains: dict[str, Process] = {}
    for process in sorted(found, key=lambda row: (row.start_time, row.pid)):
        mains.setdefault(process.host, process)
    starters: set[int] = set()
    for above in mains.values():
        while above.pid != root_pid:
            above = by_pid[above.ppid]  # noqa: PLW2901  the way up
            starters.add(above.pid)
    return frozenset(process.pid for process in mains.values()), frozenset(starters)


def topmost_python(processes: Sequence[Process], root_pid: int, is_one: Callable[[Process], bool]) -> Iterator[int]:
    """Python processes that no other Python process of the job started: the root itself, or those below it."""
    by_pid = {process.pid: process for process in processes}
    children: dict[int, list[int]] = defaultdict(list)
    for process in processes:
        children[process.ppid].append(process.pid)
    line = [root_pid] if root_pid in by_pid else []
    for pid in line:
        if is_one(by_pid[pid]):
            yield pid
        else:
            line += children[pid]


def program(process: Process) -> str:
    """The name of the file a process runs: `python3.11`, `bash`; if it is unreadable, by its command line."""
    command = process.cmdline or (process.name,)
    return (process.exe or command[0]).rpartition("/")[2].removeprefix("-")


def called(process: Process) -> str:
    """A program's name for people: the script or module that a Python runs, the title that a process has set (in place of
    its arguments, as setproctitle does), the file of any other program; empty if the command line does not show it.
    """
    first, *words = process.cmdline or (process.name,)
    if is_python(process) and not words and "python" not in first:
        return printable(first)
    if not is_python(process):
        return printable(first.rpartition("/")[2] or program(process))
    for at, word in enumerate(words):
        if word == "-m":
            return printable("".join(words[at + 1 : at + 2]))
        if word == "-c" or not word.startswith("-"):
            return "" if word == "-c" else printable(word.rpartition("/")[2])
    return ""


def printable(name: str) -> str:
    """A name given by a program, shortened for a line; empty if it is not plain text."""
    if not (name.isascii() and name.isprintable()):
        return ""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def is_python(process: Process) -> bool:
    """It runs a Python, by its program's name."""
    return "python" in program(process)


def _holds(before: Role, now: Role) -> bool:
    return before in (now, _with_given(now)) or _surer(before, now)


def _surer(before: Role, now: Role) -> bool:
    """A stack may be missing once; what an earlier one showed still holds."""
    if not _is_vague(before) and _is_vague(now):
        return True
    unsure = (now.guessed and not before.guessed) or (before.target_known and not now.target_known)
    return before.kind == now.kind and (unsure or now.nameless or now.name == "rank ?")


def _is_vague(role: Role) -> bool:
    """A later sample may show it to be something else."""
    return role.starts or role.kind in ("subprocess", "other", "process", "main")


class _Reader:
    def __init__(
        self,
        process: Process,
        stack: Stack | None,
        parent: Process | None,
        told: _Told,
        names: frozenset[str],
        *,
        given: GivenNames,
    ) -> None:
        self.process = process
        self.frames = tuple(own_frames(stack)) if stack else ()
        self.functions = frozenset(bare(frame.function) for frame in self.frames)
        self.parent = parent.pid if parent else None
        self.parent_name = parent.name if parent else None
        self.parent_command = parent.cmdline if parent else None
        self.told, self.others = told, told.roles
        self.thread_names = names
        self.given = given.get((parent.pid, process.pid)) if parent else None
        self.command = process.cmdline or ()

    def starter(self) -> Role:
        """The role of a non-Python process that started the job, or of the root that joins several machines."""
        if not self.process.threads:
            return Role(name="job", kind="launcher", guessed=True)
        kind = "shell" if program(self.process) in SHELLS else "launcher"
        return Role(name=kind, kind=kind, parent=self.parent, guessed=kind == "launcher")

    def role(self, mains: frozenset[int]) -> Role:
        helper = self._helper()
        if helper:
            return Role(name=helper, kind=helper, parent=self.parent)
        return self._worker() or self._launcher() or self._rank() or self._plain(mains)

    def _helper(self) -> str | None:
        return next((row.kind for row in libraries.HELPERS if self._is_helper(row)), None)

    def _is_helper(self, row: HelperRow) -> bool:
        if row.functions is not None and self._frame(*row.functions):
            return True
        named = bool(row.process_name) and self.process.name.startswith(row.process_name)
        if not (named or (row.command and row.command in " ".join(self.command))):
            return False
        # The one that is not the child of another.
        parent = self.others.get(self.process.ppid)
        inherits = self._frame(*_BEGINS) or (parent is not None and parent.kind == row.kind)
        return not (row.bequeaths and inherits)

    def _worker(self) -> Role | None:
        for row in libraries.WORKERS:
            frame = self._frame(*row.functions)
            if frame or (row.process_name and self.process.name == row.process_name):
                return self._numbered(row.kind, (frame.known or {}).get(row.number) if frame and row.number else None)
        return None

    def _numbered(self, kind: str, number: str | None) -> Role:
        """By its number, else by its place among those that serve the same process."""
        guessed = number is None
        if guessed:
            number = str(self.told.of_kind(kind, self.parent))
        return Role(
            name=f"{kind} {number}", kind=kind, rank=self._rank_of_parent(), parent=self.parent, guessed=guessed
        )

    def _launcher(self) -> Role | None:
        command = " ".join(self.command[:4])
        in_agent = any(frame.file.endswith(file) for frame in self.frames for file, _ in LAUNCHES)
        if in_agent or (any(word in command for word in LAUNCHERS) and "RANK" not in (self.process.environment or {})):
            return Role(name="launcher", kind="launcher", parent=self.parent)
        return None

    def _rank(self) -> Role | None:
        environment = self.process.environment or {}
        inherited = self.others.get(self.parent or 0)
        # The environment of a forked process is that of the program it comes from, which may have ended.
        own = environment if not self.process.forked else {}
        number = _integer(own, "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
        if number is not None and (inherited is None or inherited.kind != "rank") and self._python():
            return self._rank_role(number, environment)
        wrapper = self._frame(SPAWN_FILE, ("_wrap",))
        index = numeral((wrapper.known or {}).get("i", "")) if wrapper else None
        if index is not None:
            return self._rank_role(index, environment)
        if self.thread_names & RANK_THREADS or self._frame(RENDEZVOUS_FILE, ("_create_c10d_store",)):
            number = self._known_number("rank")
            return self._rank_role(number, environment)
        return None

    def _known_number(self, name: str) -> int | None:
        """The innermost local with that name."""
        texts = (frame.known[name] for frame in self.frames if frame.known and name in frame.known)
        return next((number for text in texts if (number := numeral(text)) is not None), None)

    def _rank_role(self, number: int | None, environment: Mapping[str, str]) -> Role:
        return Role(
            name=f"rank {'?' if number is None else number}", kind="rank", rank=number, parent=self.parent,
            local_rank=_integer(environment, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
            world_size=_integer(environment, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
            or self._known_number("world_size"),
        )  # fmt: skip

    def _plain(self, mains: frozenset[int]) -> Role:
        if self.process.pid in mains:
            return Role(name="main", kind="main", parent=self.parent)
        target = target_of(self.frames)
        if target:
            return Role(
                name=f"process {target}", kind="process", rank=self._rank_of_parent(), parent=self.parent, target=target,
                given=self.given,
            )  # fmt: skip
        if self._has_process_object() or self._spawned() or self._ended_fork() or self._forked():
            return self._child(mains)
        name = f"subprocess {called(self.process)}".rstrip()
        return Role(name=name, kind="subprocess", rank=self._rank_of_parent(), parent=self.parent)

    def _child(self, mains: frozenset[int]) -> Role:
        """Named after its `Process`, else by its index among its parent's children that are equally unknown."""
        if self.given:
            return named_process(self.given, self.parent, self._rank_of_parent())
        # A parent may have started within the same clock tick, and come later in the table.
        parent = "main" if self.parent in mains else (self.others.get(self.parent or 0) or _ANOTHER).name
        alike = self.told.nameless(self.parent)
        number = f" ({alike + 1})" if alike else ""
        return Role(
            name=f"child of {parent}{number}", kind="process",
            rank=self._rank_of_parent(), parent=self.parent, target_known=False, nameless=True,
        )  # fmt: skip

    def _has_process_object(self) -> bool:
        """Whether it has a `Process` in its parent, whatever its command line says by now; not if it has exec'ed another
        program since.
        """
        return self.given is not None and self._python()

    def _spawned(self) -> bool:
        return any("--multiprocessing-fork" in word for word in self.command)

    def _ended_fork(self) -> bool:
        """A zombie that kept its parent's name: it was forked and never ran another program."""
        return self.process.ended and self.process.name == self.parent_name

    def _forked(self) -> bool:
        """A Python process with its parent's command line: made by `os.fork`, or by a fork of multiprocessing."""
        return bool(self.command) and self.command == self.parent_command and self._python()

    def _frame(self, file_end: str, functions: Collection[str]) -> Frame | None:
        if self.functions.isdisjoint(functions):
            return None
        return next((frame for frame in self.frames if calls(frame, file_end, functions)), None)

    def _rank_of_parent(self) -> int | None:
        parent = self.others.get(self.parent or 0)
        return parent.rank if parent else None

    def _python(self) -> bool:
        return is_python(self.process) or bool(self.frames)


def named_process(name: str, parent: int | None, rank: int | None = None) -> Role:
    """A child of multiprocessing whose function is unknown; `rank` is its parent's."""
    return Role(name=f"process {name}", kind="process", rank=rank, parent=parent, target_known=False)


def given_names(rows: Iterable[KnownChild]) -> dict[tuple[int, int], str]:
    """The names of children not yet reaped; the pid of a reaped child may belong to another process by now."""
    named = ((row, given_name(row)) for row in rows if row.returncode is None)
    return {(row.pid, row.child): name for row, name in named if name}


def given_name(row: KnownChild) -> str | None:
    """`Process.name`, short enough for a line; `None` if it is not plain text.

    Names that are not ASCII cannot be read from memory: they come out garbled.
    """
    return printable(row.name.strip()) or None


def target_of(frames: Iterable[Frame]) -> str | None:
    """The function a multiprocessing child was started with: the call right inside `Process.run`."""
    inner: Frame | None = None
    for frame in frames:
        if calls(frame, PROCESS_FILE, ("run",)):
            return bare(inner.function) if inner else None
        inner = frame if not is_machinery(frame.file) or inner is None else inner
    return None


def _client(process: Process, by_pid: Mapping[int, Process], found: Mapping[int, Role]) -> int | None:
    """The process it works for: its parent, or the fork server's parent."""
    parent = process.ppid
    while parent in by_pid and found.get(parent) and found[parent].kind == "forkserver":
        parent = by_pid[parent].ppid
    return parent if parent in by_pid else None


def _integer(environment: Mapping[str, str], *names: str) -> int | None:
    return next((number for name in names if (number := numeral(environment.get(name, ""))) is not None), None)
