"""What shows what a process is: its frames, names and environment, and what the others are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property

from mpmon.diagnosis import libraries
from mpmon.diagnosis.libraries import LAUNCHERS, LAUNCHES, RANK_THREADS
from mpmon.diagnosis.libraries.rows import HelperRow
from mpmon.diagnosis.roles.names import PROCESS_FILE, named_process, shown_name, target_of
from mpmon.diagnosis.roles.programs import SHELLS, called, is_python, program
from mpmon.diagnosis.roles.role import MAIN, RANK, GivenNames, Role
from mpmon.diagnosis.stacks.frames import bare, calls, is_user, own_frames
from mpmon.model import Frame, Process, Stack
from mpmon.numerals import numeral

SPAWN_FILE, RENDEZVOUS_FILE = "torch/multiprocessing/spawn.py", "torch/distributed/rendezvous.py"
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
"""Of the launchers: torchrun and the like, Open MPI, MPICH, Slurm; the first one that is set counts."""

_BEGINS = (PROCESS_FILE, ("_bootstrap",))
"""The frame below which a `Process` runs its target."""

_ANOTHER = Role(name="another process", kind="other")


def _top(name: str) -> str:
    """`main` of `child of main (2)`."""
    return name.partition(" of ")[2].partition(" (")[0]


class Told:
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


class Reader:
    """What shows of one process what it is."""

    def __init__(
        self,
        process: Process,
        stack: Stack | None,
        parent: Process | None,
        told: Told,
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
        self.parent_environment = (parent.environment if parent else None) or {}
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
        """The role, given the main programs."""
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
        number = _integer(own, *RANK_VARIABLES)
        if number is not None and not (inherited and inherited.is_rank) and not self._inherits(own) and self._python():
            return self._rank_role(number, environment)
        wrapper = self._frame(SPAWN_FILE, ("_wrap",))
        index = numeral((wrapper.known or {}).get("i", "")) if wrapper else None
        if index is not None:
            return self._rank_role(index, environment)
        if self.thread_names & RANK_THREADS or self._frame(RENDEZVOUS_FILE, ("_create_c10d_store",)):
            number = self._known_number("rank")
            return self._rank_role(number, environment)
        return None

    def _inherits(self, environment: Mapping[str, str]) -> bool:
        """It was started by a process that works for a rank, with the environment of that rank."""
        parent = self.others.get(self.parent or 0)
        same = [name for name in RANK_VARIABLES if name in environment]
        return (
            parent is not None
            and parent.rank is not None
            and any(self.parent_environment.get(name) == environment[name] for name in same[:1])
        )

    def _known_number(self, name: str) -> int | None:
        """The innermost local with that name in the job's own code, else in a library's, which may count through all ranks."""
        own = [frame for frame in self.frames if is_user(frame.file)]
        texts = (frame.known[name] for frame in (*own, *self.frames) if frame.known and name in frame.known)
        return next((number for text in texts if (number := numeral(text)) is not None), None)

    def _rank_role(self, number: int | None, environment: Mapping[str, str]) -> Role:
        return Role(
            name=f"rank {'?' if number is None else number}", kind=RANK, rank=number, parent=self.parent,
            local_rank=_integer(environment, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
            world_size=_integer(environment, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
            or self._known_number("world_size"),
        )  # fmt: skip

    def _plain(self, mains: frozenset[int]) -> Role:
        if self.process.pid in mains:
            return Role(name=MAIN, kind=MAIN, parent=self.parent)
        target = target_of(self.frames)
        if target:
            name = f"process {shown_name(self.given, target)}"
            return Role(
                name=name, kind="process", rank=self._rank_of_parent(), parent=self.parent, target=target, given=self.given,
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
        parent = self.others.get(self.parent or 0) or _ANOTHER
        above = "main" if self.parent in mains else parent.name
        # The name of a chain of such children would grow with each of them.
        of = f"descendant of {_top(above)}" if parent.nameless else f"child of {above}"
        alike = self.told.nameless(self.parent)
        number = f" ({alike + 1})" if alike else ""
        return Role(
            name=f"{of}{number}", kind="process",
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


def _integer(environment: Mapping[str, str], *names: str) -> int | None:
    return next((number for name in names if (number := numeral(environment.get(name, ""))) is not None), None)
