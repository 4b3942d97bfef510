"""Finding the interpreter in files that a job may map under any name."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.probes import elf
from mpmon.probes.files import Proc
from mpmon.probes.interpreter import runtime
from mpmon.probes.interpreter.runtime import MOST_CANDIDATES, SYMBOLS_LIMIT, NoInterpreter, _candidates, find_runtime
from mpmon.probes.maps import Area, areas, device_of
from mpmon.probes.memory import Memory
from tests.probes.test_door import LEASES, lives_on
from tests.sleepers import sleeper

MOST_BYTES = 64 + 2 * elf.TABLE_LIMIT + 2 * SYMBOLS_LIMIT
"""Of one file."""


def mapped(path: Path) -> Area:
    """The line of maps for its first page."""
    info = path.stat()
    return Area(f"100000-101000 r--p 00000000 {device_of(info)} {info.st_ino} {path}")


def symbols(path: Path, pid: int | None = None) -> dict[bytes, int]:
    runtime._symbols.cache_clear()
    return runtime._symbols_of(Proc(), pid or os.getpid(), mapped(path))


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much is read of files by each call."""
    found: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, at: int) -> bytes:
        text = pread(descriptor, size, at)
        found.append(len(text))
        return text

    monkeypatch.setattr(os, "pread", counted)
    return found


def program(*, sections_at: int = 64, size: int = 64, count: int = 2, kind: int = 3) -> bytes:
    """The header of one."""
    head = bytearray(b"\x7fELF\x02\x01".ljust(64, b"\0"))
    struct.pack_into("<H", head, 16, kind)
    struct.pack_into("<Q", head, 40, sections_at)
    struct.pack_into("<HH", head, 58, size, count)
    return bytes(head)


def section(kind: int = 11, at: int = 0, size: int = 0, names: int = 1) -> bytes:
    return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, size, names, 0, 0, 0)


LARGE = (1 << 64) - 1
HOSTILE = {
    "long rows": program(size=65535, count=65535),
    "many rows": program(count=65535),
    "far away": program(sections_at=LARGE),
    "beyond the end": program(sections_at=6 << 30),
    "symbols everywhere": program() + section(size=LARGE) + section(size=LARGE),
    "symbols far away": program() + section(at=LARGE, size=LARGE) + section(at=LARGE, size=LARGE),
    "names in no section": program() + section(names=2) + section(),
    "names in a far section": program() + section(names=(1 << 32) - 1) + section(),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_sparse_file_decides_nothing_about_how_much_is_read(kind: str, tmp_path: Path, bytes_read: list[int]) -> None:
    path = tmp_path / "libpython-x"
    with path.open("wb") as file:
        file.write(HOSTILE[kind])
        file.truncate(5 << 30)
    assert symbols(path) == {}
    assert 0 < sum(bytes_read) <= MOST_BYTES


NUMBERS = st.one_of(st.integers(0, 300), st.sampled_from([1 << 31, 1 << 32, 1 << 63, LARGE]))


@given(
    st.tuples(NUMBERS, st.sampled_from([56, 64, 65535]), st.sampled_from([0, 1, 2, 3, 65535]), st.integers(0, 4)),
    st.lists(st.tuples(st.sampled_from([1, 11]), NUMBERS, NUMBERS, st.integers(0, 4)), max_size=3),
    st.binary(max_size=100),
)
def test_a_program_may_say_anything(
    tmp_path_factory: pytest.TempPathFactory, head: tuple[int, ...], rows: list[tuple[int, ...]], rest: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "libpython-x"
    at, size, count, kind = head
    path.write_bytes(
        program(sections_at=at, size=size, count=count, kind=kind) + b"".join(section(*row) for row in rows) + rest
    )
    assert set(symbols(path)) <= set(runtime.SYMBOLS)


def test_a_lease_on_a_mapped_file_is_not_broken(tmp_path: Path) -> None:
    path = tmp_path / "libpython-x"
    path.write_bytes(program() + section() + section())
    with sleeper(LEASES, arguments=[str(path)]) as child:
        assert symbols(path, child.pid) == {}
        assert lives_on(child)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "libpython-x"
    os.mkfifo(path)
    assert symbols(path) == {}


# Which files


def interpreter() -> Area:
    """The file that holds the one that runs this."""
    runtime._symbols.cache_clear()
    with Memory(Proc(), os.getpid()) as memory:
        find_runtime(Proc(), os.getpid(), memory, everything := areas(Proc(), os.getpid()))
    return next(
        area for area in _candidates(everything) if b"_PyRuntime" in runtime._symbols_of(Proc(), os.getpid(), area)
    )


def test_a_file_that_is_another_one_now_is_not_looked_into(tmp_path: Path) -> None:
    real = interpreter()
    path = tmp_path / "libpython-x"
    path.symlink_to(real.path)
    other = Area(f"100000-101000 r--p 00000000 {real.device} {real.inode + 1} {real.path}")
    assert runtime._symbols_of(Proc(), os.getpid(), other) == {}
    again = Area(f"100000-101000 r--p 00000000 {real.device} {real.inode} {path}")
    assert runtime._symbols_of(Proc(), os.getpid(), again) == {}, "maps shows no links"


def info(major: int, minor: int, inode: int) -> os.stat_result:
    return os.stat_result((0o100644, inode, os.makedev(major, minor), 1, 0, 0, 0, 0, 0, 0))


def test_the_device_counts_where_both_tell_the_same_one() -> None:
    on_disk = Area("100000-101000 r--p 00000000 fe:01 7 /usr/bin/python3")
    assert on_disk.is_of(info(0xFE, 1, 7))
    assert not on_disk.is_of(info(0xFE, 1, 8))
    assert not on_disk.is_of(info(0xFE, 2, 7))
    # btrfs tells stat of the subvolume, overlayfs of itself or of the layer.
    subvolume = Area("100000-101000 r--p 00000000 00:29 7 /usr/bin/python3")
    assert subvolume.is_of(info(0, 0x2C, 7))
    assert not subvolume.is_of(info(0, 0x2C, 8))
    assert not subvolume.is_of(info(0xFE, 1, 7))


OVERLAY = """
import ctypes, mmap, os, subprocess, sys
folder, name = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x20000) == 0, os.strerror(ctypes.get_errno())
run = lambda *words: subprocess.run(words, check=True, capture_output=True)
try:
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "tmpfs", "tmpfs", f"{folder}/upper")
    os.mkdir(f"{folder}/upper/files"); os.mkdir(f"{folder}/upper/work")
    options = f"lowerdir={folder}/lower,upperdir={folder}/upper/files,workdir={folder}/upper/work"
    run("mount", "-t", "overlay", "overlay", "-o", options, f"{folder}/merged")
except subprocess.CalledProcessError as problem:
    print(problem.stderr.decode().strip() or "no overlay", flush=True)
    sys.exit()
held = mmap.mmap(os.open(f"{folder}/merged/{name}", os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
print('ready', flush=True)
sys.stdin.read()
"""


@pytest.fixture
def overlaid(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A process that has mapped its interpreter from an overlay of two file systems, in a mount namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount an overlay")
    for name in ("lower", "upper", "merged"):
        (tmp_path / name).mkdir()
    real = interpreter()
    (tmp_path / "lower" / "libpython-x").write_bytes(Path(real.path).read_bytes())
    command = [sys.executable, "-c", OVERLAY, str(tmp_path), "libpython-x"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        said = child.stdout.readline().strip()
        if said != "ready":
            pytest.skip(f"no overlay here: {said}")
        yield child.pid, tmp_path / "merged" / "libpython-x"
        child.communicate()


def test_an_interpreter_on_an_overlay_is_found(overlaid: tuple[int, Path]) -> None:
    pid, path = overlaid
    (area,) = [area for area in areas(Proc(), pid) if area.path == str(path)]
    assert not path.exists(), "it is in another mount namespace"
    # Of which stat(2) and maps tell different devices (Linux 6.18).
    assert b"_PyRuntime" in runtime._symbols_of(Proc(), pid, area)


def test_many_files_hide_no_interpreter_of_the_usual_name() -> None:
    names = [f"/x/a{number}.cpython-311-x86_64-linux-gnu.so" for number in range(100)]
    lines = [f"{1 + n:x}000-{2 + n:x}000 r--p 00000000 fe:01 {n + 1} {name}" for n, name in
             enumerate([*names, "/usr/bin/python3.11", "/usr/lib/libpython3.11.so.1.0"])]  # fmt: skip
    chosen = _candidates([Area(line) for line in lines])
    assert len(chosen) == MOST_CANDIDATES
    assert [area.path for area in chosen[:2]] == ["/usr/lib/libpython3.11.so.1.0", "/usr/bin/python3.11"]


def test_a_process_that_maps_only_rubbish_has_no_interpreter(tmp_path: Path) -> None:
    found: list[Area] = []
    for number in range(3):
        path = tmp_path / f"libpython{number}"
        path.write_bytes(os.urandom(100))
        found.append(mapped(path))
    with Memory(Proc(), os.getpid()) as memory, pytest.raises(NoInterpreter, match="no interpreter was found"):
        find_runtime(Proc(), os.getpid(), memory, found)
