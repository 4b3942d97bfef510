"""Finding the interpreter in a process: which Python it is, and where `_PyRuntime` lies.

Every build exports the symbol, as extension modules link against it, so it is in the dynamic symbol table of the
executable or of libpython: elf(5).  The file is read through the process's own root, as the process sees it.

A job may map any file under such a name, so no number in the file decides how much is read.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from mpmon.probes.door import FILE, Found, Place, seen_by
from mpmon.probes.elf import (
    DYNAMIC_SYMBOLS,
    SHARED_OBJECT,
    SYMBOL,
    BadElf,
    Program,
    header_of,
    program,
    sections_of,
)  # fmt: skip
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.hashes import SECRET_BYTES, Hashes
from mpmon.probes.interpreter.layouts import COOKIE, PUBLISHED, TABLE, Layout, with_published
from mpmon.probes.maps import Area, areas
from mpmon.probes.memory import Memory

DEBUGS = b"_Py_NegativeRefcount"
"""A symbol that only builds with reference debugging export (`Py_REF_DEBUG` in Include/object.h)."""

SECRET = b"_Py_HashSecret"
"""What the hashes of strings depend on (Include/pyhash.h)."""

SYMBOLS = (b"_PyRuntime", b"Py_Version", SECRET, DEBUGS)
SYMBOLS_LIMIT = 1 << 22
"""Most bytes read of a symbol or string table; libpython's have 200 kB."""

MOST_CANDIDATES = 16
"""Most mapped files examined."""

_PYTHON = re.compile(r"/(?:lib)?python(\d+)\.(\d+)[^/]*$")


class Runtime:
    """One interpreter in one process."""

    def __init__(self, address: int, layout: Layout, hashes: Hashes | None = None) -> None:
        self.address = address
        self.layout = layout
        self.hashes = hashes
        """`None` where the secret of the hashes cannot be read."""


class NoInterpreter(Exception):
    """No interpreter can be read; the message says why."""


def runtime_of(proc: Proc, pid: int, memory: Memory) -> Runtime:
    """The interpreter of a process.

    Raises:
        NoInterpreter: there is none, or its version or build has unknown offsets.
        OSError: the process is gone, or another user's.
    """
    try:
        return find_runtime(proc, pid, memory, areas(proc, pid, _has_usual_name))
    except NoInterpreter:
        return find_runtime(proc, pid, memory, areas(proc, pid))


def _has_usual_name(line: str) -> bool:
    """Of a line of maps: extension modules have it in theirs too, and parsing them takes longer than all the rest."""
    return line.rpartition("/")[2].startswith(("python", "libpython"))


def find_runtime(proc: Proc, pid: int, memory: Memory, everything: list[Area]) -> Runtime:
    """The interpreter of a process.

    Raises:
        NoInterpreter: there is none, or its version or build has unknown offsets.
    """
    for area in _candidates(everything):
        symbols = _symbols_of(proc, pid, area)
        if b"_PyRuntime" in symbols:
            return _runtime(memory, area, {name: area.start + value for name, value in symbols.items()})
    raise NoInterpreter("no interpreter was found in the process")


def _candidates(everything: list[Area]) -> list[Area]:
    """The beginnings of files that may hold an interpreter: libpython first, then python, then others named after it.

    Every extension module has it in its name (`.cpython-311-x86_64-linux-gnu.so`).
    """
    begin = [area for area in everything if area.inode and area.offset == 0 and "python" in _name(area)]
    begin.sort(key=lambda area: (not _name(area).startswith("libpython"), not _name(area).startswith("python")))
    return begin[:MOST_CANDIDATES]


def _name(area: Area) -> str:
    return area.path.rpartition("/")[2]


def _symbols_of(proc: Proc, pid: int, area: Area) -> dict[bytes, int]:
    """By the process's path, else by mpmon's: in a container maps shows the former, in a chroot the latter."""
    path = area.path.removesuffix(" (deleted)")
    for place in (seen_by(proc, pid, path), Place(path)):
        try:
            with Found(place, FILE) as file:
                # After an upgrade another file may be at that path.
                if area.is_of(file.info):
                    return _symbols(program(file.descriptor, file.info))
        except (OSError, BadElf):
            continue
    return {}


@lru_cache(maxsize=64)
def _symbols(program: Program) -> dict[bytes, int]:
    """Offsets of `SYMBOLS` from the address at which the file is mapped.

    Raises:
        BadElf: it is not a program.
        OSError: as pread(2).
    """
    header = header_of(program)
    sections = sections_of(program, header)
    dynamic = next((section for section in sections if section.kind == DYNAMIC_SYMBOLS), None)
    if dynamic is None or dynamic.link >= len(sections):
        return {}
    symbols = program.part(dynamic.offset, min(dynamic.size, SYMBOLS_LIMIT))
    strings = sections[dynamic.link]
    names = program.part(strings.offset, min(strings.size, SYMBOLS_LIMIT))
    return _pick(symbols, names, 0 if header.kind == SHARED_OBJECT else header.base)


def _pick(symbols: bytes, names: bytes, base: int) -> dict[bytes, int]:
    wanted = {names.find(b"\0" + name + b"\0") + 1: name for name in SYMBOLS}
    whole = symbols[: len(symbols) // SYMBOL.size * SYMBOL.size]
    return {
        wanted[name]: value - base for name, _, _, _, value, _ in SYMBOL.iter_unpack(whole) if name and name in wanted
    }


def _runtime(memory: Memory, area: Area, addresses: dict[bytes, int]) -> Runtime:
    version = _version(memory, area, addresses)
    layout = TABLE.get(version)
    if layout is None:
        raise NoInterpreter(f"the layout of Python {version[0]}.{version[1]} is not known")
    if DEBUGS in addresses and version not in PUBLISHED:
        raise NoInterpreter("the layout of a debug build is not known")
    address = addresses[b"_PyRuntime"]
    secret = memory.read(addresses[SECRET], SECRET_BYTES) if SECRET in addresses else None
    hashes = Hashes(secret, version) if secret else None
    return Runtime(address, _confirmed(memory, address, layout) if version in PUBLISHED else layout, hashes)


def _version(memory: Memory, area: Area, addresses: dict[bytes, int]) -> tuple[int, int]:
    """`Py_Version` (3.11 and later), else the name of the file."""
    words = memory.unpack("I", addresses[b"Py_Version"]) if b"Py_Version" in addresses else None
    if words:
        return words[0] >> 24, words[0] >> 16 & 0xFF
    named = _PYTHON.search(area.path)
    if named is None:
        raise NoInterpreter(f"the version of {area.path} is not known")
    return int(named[1]), int(named[2])


def _confirmed(memory: Memory, address: int, layout: Layout) -> Layout:
    """What the interpreter publishes about itself: `_Py_DebugOffsets`, at the very beginning of `_PyRuntime`."""
    head = memory.read(address, 24)
    if head is None or not head.startswith(COOKIE):
        raise NoInterpreter("the interpreter does not publish its layout")
    version, free = struct.unpack_from("<QQ", head, 8)
    if (version >> 24, version >> 16 & 0xFF) != layout.version:
        raise NoInterpreter("the interpreter publishes the layout of another version")
    if free:
        raise NoInterpreter("free-threaded Python is not understood yet")
    words = memory.unpack(f"{len(PUBLISHED[layout.version])}Q", address + 24)
    confirmed = with_published(layout, words) if words else None
    if confirmed is None:
        raise NoInterpreter("the layout that the interpreter publishes is impossible")
    return confirmed
