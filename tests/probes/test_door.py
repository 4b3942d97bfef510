"""The door to files of others, and what may stand behind it."""

from __future__ import annotations

import ctypes
import errno
import os
import pickle
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mpmon.probes import door
from mpmon.probes.door import FILE, FOLDER, Place, Refused, names, opened, read, seen_by, status
from mpmon.probes.file_locks import Leases
from mpmon.probes.files import Proc
from mpmon.probes.users import name_of
from tests.descriptors import own_descriptors
from tests.ipc.conftest import own_shm
from tests.ipc.running import Job
from tests.sleepers import sleeper

__all__ = ["own_shm"]

ROOT = os.geteuid() == 0
ME, STRANGER = os.geteuid(), 1001

needs_root = pytest.mark.skipif(not ROOT, reason="only root may give files away and make devices")


@pytest.fixture(autouse=True)
def no_descriptor_stays() -> Iterator[None]:
    before = own_descriptors()
    yield
    assert own_descriptors() - before == set()


@pytest.fixture(params=[errno.ENOSYS, errno.EPERM], ids=["an old kernel", "a sandbox"])
def no_openat2(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(door, "call", refuse)


@pytest.fixture(params=["openat2", "no_openat2"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that no path leads out of, with and without the kernel's help; beside it lies a secret."""
    if request.param == "openat2":
        request.getfixturevalue("openat2")
    else:
        monkeypatch.setattr(door, "call", lambda *_: _raise(errno.ENOSYS))
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "etc").mkdir(parents=True)
    (inside / "etc" / "name").write_text("inside")
    return inside


def _raise(number: int) -> int:
    raise OSError(number, os.strerror(number))


def why(place: Place, expected: door.Expected = FILE) -> str:
    """The words of a refusal."""
    with pytest.raises(Refused) as refusal, opened(place, expected):
        pass
    assert refusal.value.filename == str(place)
    return door.words(refusal.value)


# What it is


def listening(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        # The path itself may be too long for the name of a socket.
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


OTHERS: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a symbolic link": lambda path: path.symlink_to("/etc/passwd"),
    "a socket": listening,
    "a device": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
}


class Openings:
    """Whether somebody opens a file: inotify(7) tells it, also of a pipe or a device."""

    IN_OPEN = 0x20

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self._descriptor, os.fsencode(path), self.IN_OPEN) >= 0

    def there_were(self) -> bool:
        try:
            return bool(os.read(self._descriptor, 4096))
        except BlockingIOError:
            return False
        finally:
            os.close(self._descriptor)


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_file_is_refused_by_name_and_not_even_opened(kind: str, root: Path) -> None:
    if kind == "a device" and not ROOT:
        pytest.skip("only root may make devices")
    OTHERS[kind](root / "x")
    openings = Openings(root / "x") if kind != "a symbolic link" else None
    for place in (Place(str(root / "x")), Place("/x", str(root))):
        assert why(place) == f"is {kind}, not a regular file"
    assert openings is None or not openings.there_were()


def test_a_file_is_read_up_to_a_limit(root: Path) -> None:
    (root / "x").write_bytes(b"0123456789")
    openings = Openings(root / "x")
    assert read(Place("/x", str(root)), FILE, 4) == b"0123"
    assert read(Place(str(root / "x")), FILE, 100) == b"0123456789"
    assert openings.there_were()


def test_no_more_is_read_of_a_file_of_five_gigabytes(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(5 << 30)
    assert read(Place(str(tmp_path / "x")), FILE, 1000) == bytes(1000)


def test_what_was_looked_at_is_what_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes to stand at the path meanwhile."""
    path = tmp_path / "x"
    path.write_text("looked at")
    check = door._check

    def swap(*arguments: object) -> None:
        check(*arguments)  # type: ignore[arg-type]
        path.rename(tmp_path / "old")
        os.mkfifo(path)

    monkeypatch.setattr(door, "_check", swap)
    assert read(Place(str(path)), FILE, 100) == b"looked at"


LEASES = """
import fcntl, os, sys
held = [os.open(path, os.O_RDWR) for path in sys.argv[1:]]
for descriptor in held:
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('ready', flush=True)
for line in sys.stdin:
    print('still here', flush=True)
"""
"""Does not expect SIGIO, which comes when somebody opens one of these files: fcntl(2)."""


def lives_on(child: subprocess.Popen[str]) -> bool:
    """It gets on; a signal that it was sent before has had its effect by then."""
    assert child.stdin
    assert child.stdout
    child.stdin.write("\n")
    child.stdin.flush()
    return child.stdout.readline() == "still here\n"


def test_a_lease_is_not_broken(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("leased")
    with sleeper(LEASES, arguments=[str(path)]) as child:
        assert "has a lease of another process on it" in why(Place(str(path)), FILE)
        assert lives_on(child)
        assert f":{path.stat().st_ino} " in Path("/proc/locks").read_text()
    assert read(Place(str(path)), FILE, 100) == b"leased"


def test_a_lease_for_reading_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("leased")
    program = LEASES.replace("O_RDWR", "O_RDONLY").replace("F_WRLCK", "F_RDLCK")
    with sleeper(program, arguments=[str(path)]) as child:
        assert read(Place(str(path)), FILE, 100) == b"leased"
        assert lives_on(child)


def test_many_locks_are_not_read_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = 1_000_000 * "\n"  # lines that stand for those of other locks
    moments = iter([10.0, 10.9, 11.1])
    monkeypatch.setattr("mpmon.probes.file_locks.time.monotonic", lambda: next(moments))
    (tmp_path / "locks").write_text(f"1: LEASE  ACTIVE    WRITE 7 fe:00:23 0 EOF\n{others}")
    leases = Leases(Proc(tmp_path))
    assert leases.inodes() == {23, 0}
    (tmp_path / "locks").write_text(
        "1: POSIX  ADVISORY  WRITE 7 fe:00:23 0 EOF\n2: LEASE  BREAKING  UNLCK 7 fe:00:24 0 EOF\n"
    )
    assert leases.inodes() == {23, 0}
    assert leases.inodes() == {24, 0}


def test_the_names_in_a_folder(root: Path) -> None:
    for number in range(5):
        (root / "etc" / str(number)).touch()
    os.mkfifo(root / "etc" / "pipe")
    with opened(Place("/etc", str(root)), FOLDER) as folder:
        assert sorted(names(folder)) == ["0", "1", "2", "3", "4", "name", "pipe"]
        assert len(names(folder, most=3)) == 3
        assert stat.S_ISFIFO(status(folder, "pipe").st_mode)
        assert read(Place("name", folder), FILE, 100) == b"inside"
        assert os.fstatvfs(folder).f_bsize > 0
    assert why(Place("/etc/pipe", str(root)), FOLDER) == "is a named pipe, not a folder"


def test_what_is_not_there_is_no_refusal(root: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        read(Place("/none", str(root)), FILE, 1)
    assert door.words(missing.value) == "no such file or directory"
    with pytest.raises(FileNotFoundError):
        read(Place("/etc/none", f"{root}/none"), FILE, 1)


# Where it is


@pytest.mark.parametrize("path", ["/../secret", "/etc/../../secret", "/up/secret", "/absolute"])
def test_no_path_leads_out(path: str, root: Path) -> None:
    (root / "up").symlink_to("..")
    (root / "absolute").symlink_to(root.parent / "secret")
    with pytest.raises(OSError, match=r"No such file|symbolic link|leads upwards"):
        read(Place(path, str(root)), FILE, 100)


def test_links_stay_inside(openat2: None, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("inside")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "etc" / "again").symlink_to("../../../link")
    for path in ("/etc/passwd", "/link/passwd", "/etc/again/passwd", "/../../etc/passwd"):
        assert read(Place(path, str(tmp_path)), FILE, 100) == b"inside"


def test_without_the_kernels_help_a_link_on_the_way_is_refused(no_openat2: None, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("inside")
    (tmp_path / "link").symlink_to("etc")
    assert read(Place("//etc/./passwd", str(tmp_path)), FILE, 100) == b"inside"
    assert "has a symbolic link in it" in why(Place("/link/passwd", str(tmp_path)))
    assert "is a symbolic link" in why(Place("/link", str(tmp_path)), FOLDER)
    assert "leads upwards" in why(Place("/etc/../etc/passwd", str(tmp_path)))


def test_links_of_the_kernel_are_not_followed(openat2: None) -> None:
    """They lead to any file system, whatever the root is."""
    with pytest.raises(OSError, match="symbolic links"):
        read(seen_by(Proc(), os.getpid(), os.path.join("/proc/self/root", "etc/passwd")), FILE, 1)


def test_a_path_that_is_none(root: Path) -> None:
    for place in (Place("/etc\0/name", str(root)), Place(f"{root}\0")):
        assert why(place) == "is not a path"


IN_A_CONTAINER = """
import os, pathlib, sys
link, real = map(pathlib.Path, sys.argv[1:])
real.mkdir()
(real / "who").write_text("container")
link.symlink_to(real)
print('{"ready": true}', flush=True)
sys.stdin.read()
"""


def test_a_link_in_another_mount_namespace_leads_to_what_it_means_there(
    own_shm: str, openat2: None, tmp_path: Path
) -> None:
    link, real = (Path("/dev/shm") / f"{tmp_path.name}-{os.getpid()}-{name}" for name in ("link", "real"))
    real.mkdir()
    try:
        (real / "who").write_text("host")
        program = tmp_path / "program.py"
        program.write_text(IN_A_CONTAINER)
        with Job(own_shm, "1m", str(program), str(link), str(real)) as job:
            assert job.hear() == {"ready": True}
            assert Path(f"/proc/{job.pid}/root{link}/who").read_text() == "host"
            assert read(seen_by(Proc(), job.pid, f"{link}/who"), FILE, 100) == b"container"
    finally:
        (real / "who").unlink()
        real.rmdir()


# Whose it is


def test_what_is_ones_own(root: Path) -> None:
    (root / "x").write_text("mine")
    (root / "x").chmod(0o644)
    assert read(Place("/x", str(root)), FILE.by(ME), 100) == b"mine"
    root.chmod(0o755)
    with opened(Place("/", str(root)), FOLDER.by(ME)) as folder:
        assert "x" in names(folder)


@needs_root
def test_what_a_stranger_has_written_is_refused_with_its_name(root: Path) -> None:
    path = root / "x"
    path.touch()
    for uid in (STRANGER, 65534):
        os.chown(path, uid, uid)
        assert why(Place("/x", str(root)), FILE.by(ME)) == f"belongs to {name_of(uid)}, not to root"
        assert read(Place("/x", str(root)), FILE, 1) == b""
    os.chown(root / "etc", STRANGER, STRANGER)
    assert why(Place("/etc", str(root)), FOLDER.by(ME)) == f"belongs to {name_of(STRANGER)}, not to root"


@needs_root
def test_root_may_write_for_anybody(root: Path) -> None:
    assert read(Place("/etc/name", str(root)), FILE.by(STRANGER), 100) == b"inside"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o777])
def test_what_others_may_write_to_is_refused(mode: int, root: Path) -> None:
    for path, expected in (("/etc/name", FILE), ("/etc", FOLDER)):
        (root / path[1:]).chmod(mode)
        assert why(Place(path, str(root)), expected.by(ME)).startswith("may be written by others than ")
        (root / path[1:]).chmod(0o700)


def test_a_file_of_two_names_is_refused(root: Path) -> None:
    (root / "other").hardlink_to(root / "etc" / "name")
    assert why(Place("/other", str(root)), FILE.by(ME)) == "has 2 hard links"
    assert read(Place("/other", str(root)), FILE, 100) == b"inside"


@needs_root
def test_a_folder_may_be_named_by_a_link_but_not_by_a_strangers(openat2: None, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("folder")
    for place in (Place(str(tmp_path / "link")), Place("/link", str(tmp_path))):
        with opened(place, FOLDER.by(ME)) as folder:
            assert names(folder) == []
        os.lchown(tmp_path / "link", STRANGER, STRANGER)
        assert why(place, FOLDER.by(ME)) == "is a symbolic link, not a folder"
        os.lchown(tmp_path / "link", ME, ME)


def test_a_refusal_can_be_sent_to_another_process() -> None:
    place = seen_by(Proc(), 7, "/x")
    again = pickle.loads(pickle.dumps(door._refusal("is a socket, not a folder", place)))
    assert (type(again), again.strerror, again.filename) == (Refused, "is a socket, not a folder", str(place))
