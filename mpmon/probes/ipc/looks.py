"""Shared memory that one process has mapped and open: proc_pid_maps(5), proc_pid_fd(5), and how much of its limits it
uses: proc_pid_limits(5), proc_pid_statm(5).

torch's files are recognised by their name, `torch_PID_RANDOM_NUMBER` (NewProcessWideShmHandle of torch's c10 and ATen);
semaphores by the prefix `sem.` that glibc gives them, also after that name is removed. The process sees the folder as
/dev/shm; from outside its container, maps show another path, or none.
"""

from __future__ import annotations

import errno
import mmap
import platform
import re
from collections.abc import Collection, Iterator

import msgspec

from mpmon.model import Limits, SharedUse, Unknown
from mpmon.probes.aside import may_hang
from mpmon.probes.door import FILE, behind, read, seen_by
from mpmon.probes.files import Proc
from mpmon.probes.maps import MAPS_LIMIT, Area, area_of, file_id
from mpmon.rows import shared_by

NAME = re.compile(r"(?:^|/)(torch_(\d+)_\d+_\d+)$")
"""The name of a file of torch, with the pid of its creator."""

DELETED = " (deleted)"

MOST_DESCRIPTORS = 4096
"""Most descriptors examined per process; the rest are only counted."""

MOST_FILES = 1024
"""Most torch files of one process with rows of their own, those with a name and the largest first."""

USER_SPACE = {"x86_64": 1 << 47, "aarch64": 1 << 48}
"""Bytes of address space that the kernel gives a program by default: Documentation/arch/x86/x86_64/mm.rst and
arch/arm64/memory.rst.
"""

VERSION_FILE_LIMIT = 4096

_NAMES = (b"/torch_", b"/sem.")
_TORCH_FOLDER = re.compile(rb" (/[^\n]*/torch)/lib/libtorch_cpu\.so\n")
_VERSION = re.compile(rb"^__version__ = '([\w.+-]{1,60})'", re.MULTILINE)
_OPEN_FILES = re.compile(r"^Max open files\s+(\d+)", re.MULTILINE)
_ADDRESSES = re.compile(r"^Max address space\s+(\d+)", re.MULTILINE)


class Shared(msgspec.Struct):
    """One torch file as one process has it."""

    name: str
    path: str
    deleted: bool
    size: int
    """Bytes, in whole pages."""
    maps: int = 0
    descriptors: int = 0
    address: int = 0
    """Its first address; 0 if it is not mapped."""

    @property
    def creator(self) -> int:
        """The pid in its name."""
        found = NAME.search(self.name)
        return int(found[2]) if found else 0


class Look(msgspec.Struct):
    """One process at one moment."""

    pid: int
    at: float
    shared: dict[str, Shared] = {}
    """By id, `file:DEV:INODE`."""
    semaphores: dict[int, str] = {}
    """Ids of semaphores by the address they are mapped at."""
    names: frozenset[str] = frozenset()
    """Ids of all its semaphores."""
    torch_folder: str = ""
    """Where its torch is installed, as the process names it; empty without one."""
    limits: Limits | None = None
    uses: tuple[SharedUse, ...] = ()
    problem: Unknown | None = None

    def has_any(self, semaphores: Collection[str]) -> bool:
        """Whether it maps one of these."""
        return not self.names.isdisjoint(semaphores)


@may_hang
def look_at(proc: Proc, pid: int, now: float, maps_limit: int | None, before: Look | None = None) -> Look:
    """One look; rows equal to the previous ones are the same objects."""
    look = Look(pid, now, {}, {})
    counted: dict[str, int | None] = {"maps": None, "descriptors": None}
    for what, count in (("maps", _read_maps), ("descriptors", _read_descriptors)):
        try:
            counted[what] = count(proc, look)
        except OSError as problem:
            gone = problem.errno in (errno.ENOENT, errno.ESRCH)
            words = {"maps": "mappings", "descriptors": "open files"}[what]
            reason = f"{words} cannot be read ({(problem.strerror or 'failed').lower()})"
            look.problem = Unknown(table="shared_uses", pid=pid, reason="ended" if gone else reason, gone=gone)
    look.names = frozenset(look.semaphores.values())
    most_files, most_addresses = _limits(proc, pid)
    limits = Limits(
        pid=pid, descriptors=counted["descriptors"], descriptors_limit=most_files, maps=counted["maps"],
        maps_limit=maps_limit, address_bytes=_address_bytes(proc, pid), address_limit=most_addresses,
        torch=_version(proc, look, before),
    )  # fmt: skip
    _fill_rows(look, limits)
    if before is not None:
        _keep(look, before)
    return look


def max_maps(proc: Proc) -> int | None:
    """`vm.max_map_count`: mappings a process may have."""
    try:
        return int(proc.text("sys/vm/max_map_count"))
    except (OSError, ValueError):
        return None


def _read_maps(proc: Proc, look: Look) -> int:
    text = proc.read(look.pid, "maps", limit=MAPS_LIMIT)
    for area in _named_areas(text):
        if area.semaphore:
            look.semaphores[area.start] = area.semaphore
        elif area.is_shared and NAME.search(area.path.removesuffix(DELETED)):
            shared = _shared(look, f"file:{area.device}:{area.inode}", area.path, area.size)
            shared.maps += 1
            shared.address = shared.address or area.start
    torch = _TORCH_FOLDER.search(text)
    look.torch_folder = torch[1].decode("utf-8", "surrogateescape") if torch else ""
    return text.count(b"\n")


def _named_areas(text: bytes) -> Iterator[Area]:
    """The few relevant lines, found by the names in them; the others are never parsed."""
    for name in _NAMES:
        at = text.find(name)
        while at >= 0:
            start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
            if end < 0:
                break
            if area := area_of(text[start:end].decode("utf-8", "replace")):
                yield area
            at = text.find(name, end)


def _read_descriptors(proc: Proc, look: Look) -> int:
    names = proc.names(look.pid, "fd")
    for name in names[:MOST_DESCRIPTORS]:
        try:
            target = proc.link(look.pid, "fd", name)
            if "torch_" not in target or not NAME.search(target.removesuffix(DELETED)):
                continue
            info = behind(proc.path(look.pid, "fd", name))
        except OSError:
            continue
        shared = _shared(look, file_id(info), target, whole_pages(info.st_size))
        shared.descriptors += 1
    return len(names)


def whole_pages(size: int) -> int:
    """The size of a mapping of this many bytes."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _shared(look: Look, name: str, target: str, size: int) -> Shared:
    if name not in look.shared:
        path = target.removesuffix(DELETED)
        found = NAME.search(path)
        look.shared[name] = Shared(found[1] if found else path, path, target.endswith(DELETED), size)
    return look.shared[name]


def _fill_rows(look: Look, limits: Limits) -> None:
    shared = look.shared.values()
    look.limits = msgspec.structs.replace(
        limits, storages=sum(1 for file in shared if file.maps), storage_bytes=sum(file.size * file.maps for file in shared),
        storage_descriptors=sum(file.descriptors for file in shared),
    )  # fmt: skip
    told = sorted(look.shared.items(), key=lambda item: (item[1].deleted, -item[1].size, item[0]))[:MOST_FILES]
    look.shared = dict(told)
    look.uses = tuple(
        SharedUse(pid=look.pid, object=name, maps=file.maps, descriptors=file.descriptors) for name, file in told
    )


def _limits(proc: Proc, pid: int) -> tuple[int | None, int | None]:
    """The soft limits of open files and of address space; `None` if there is none, or it cannot be read."""
    try:
        text = proc.text(pid, "limits")
    except OSError:
        return None, None
    files, addresses = _OPEN_FILES.search(text), _ADDRESSES.search(text)
    return int(files[1]) if files else None, int(addresses[1]) if addresses else USER_SPACE.get(platform.machine())


def _address_bytes(proc: Proc, pid: int) -> int | None:
    """Rounded, so that a row changes only when it matters."""
    try:
        pages = int(proc.text(pid, "statm").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pages * mmap.PAGESIZE >> 30 << 30


def _version(proc: Proc, look: Look, before: Look | None) -> str | None:
    """The version of torch, by its own version.py."""
    if before and before.limits and before.torch_folder == look.torch_folder:
        return before.limits.torch
    if not look.torch_folder:
        return None
    try:
        text = read(seen_by(proc, look.pid, f"{look.torch_folder}/version.py"), FILE, VERSION_FILE_LIMIT)
    except OSError:
        return None
    found = _VERSION.search(text)
    return found[1].decode() if found else None


def _keep(look: Look, before: Look) -> None:
    look.uses = shared_by(lambda row: row.object, look.uses, before.uses)
    look.limits = before.limits if look.limits == before.limits else look.limits
    look.problem = before.problem if look.problem == before.problem else look.problem
