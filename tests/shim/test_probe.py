"""Finding the files of a job, and removing those of dead ones."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mpmon.model import Process
from mpmon.probes.door import Place
from mpmon.probes.files import Proc
from mpmon.probes.shim import clean, cleaning, probe, refusal
from mpmon.probes.shim import folders as shim_folders
from mpmon.probes.shim.folders import home_of
from mpmon.probes.users import name_of
from mpmon.shim import layout
from mpmon.shim.places import RECORDS, STACKS, Name, default_folders, own_namespace, run_folder, start_ticks
from tests.ipc.running import Job as AnyJob
from tests.shim.running import PROGRAMS, STARTUP, Job, files, look, run
from tests.sleepers import sleeper


def process(**fields: object) -> Process:
    known: dict[str, object] = {"pid": os.getpid(), "start_time": 1.0, "ppid": 1, "state": "S", "name": "python"}
    return Process(**{**known, "threads": 1, "cpu_s": 0.0, "rss_bytes": 0, **fields})  # type: ignore[arg-type]


def folders(**fields: object) -> tuple[str, ...]:
    return tuple(map(str, home_of(Proc(), process(**fields), 7).folders))


def test_the_folder_is_the_one_the_process_was_told() -> None:
    assert folders(environment={"MPMON_RUN_DIR": "/run/jobs"}) == ("/run/jobs",)


def test_without_being_told_it_is_one_of_the_usual_ones() -> None:
    assert folders(uid=7, environment={"XDG_RUNTIME_DIR": "/run/user/7"}) == ("/run/user/7/mpmon", "/dev/shm/mpmon-7")
    assert folders(uid=7, environment={}) == folders(uid=7) == ("/dev/shm/mpmon-7",)


def test_a_folder_that_depends_on_where_one_stands_is_not_looked_at() -> None:
    assert folders(environment={"MPMON_RUN_DIR": "here"}) == ()


def test_files_bear_the_pid_of_their_own_namespace() -> None:
    assert home_of(Proc(), process(namespace_pid=12), 7).key == (12, 7)
    assert home_of(Proc(), process(), 7).key == (os.getpid(), 7)


def test_the_writer_chooses_the_first_folder_that_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("MPMON_RUN_DIR", raising=False)
    assert run_folder() == str(tmp_path / "mpmon")
    assert (tmp_path / "mpmon").stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("MPMON_RUN_DIR", str(tmp_path / "named"))
    assert run_folder() == str(tmp_path / "named")
    assert default_folders(7, None) == ("/dev/shm/mpmon-7",)


@pytest.mark.parametrize(
    "name", ["", "x", ".mpmon", "1.2.mpmon", "1.2.3", "1.2.3.txt", "a.2.3.mpmon", "1.2.3.4.mpmon", "²2.2.3.mpmon", "-1.2.3.mpmon"]
)  # fmt: skip
def test_names_that_are_none_of_ours(name: str) -> None:
    assert Name.parse(name, ".mpmon", ".stacks") is None


def test_a_name_and_back() -> None:
    own = Name.own()
    parsed = Name.parse(own.file(), ".mpmon")
    assert parsed is not None
    assert (parsed.pid, parsed.start_ticks, parsed.namespace) == (os.getpid(), start_ticks("self"), own.namespace)
    assert not parsed.is_dead()
    assert Name(own.pid, own.start_ticks + 1, own.namespace).is_dead(), "the pid was used again"
    assert not Name(own.pid, own.start_ticks + 1, own.namespace + 1).is_dead(), "of other namespaces nothing is known"


def test_a_job_without_the_shim_costs_nothing_in_the_report(tmp_path: Path) -> None:
    with Job("becomes.py", folder=None, MPMON_RUN_DIR=str(tmp_path)) as job, look(job.pid) as looking:
        job.hear()
        snapshot = looking.round()
    assert (snapshot.shims, snapshot.probes) == ((), ())


def test_a_folder_that_may_not_be_listed_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Job("becomes.py", folder=None, MPMON_RUN_DIR=str(tmp_path / "file")) as job, look(job.pid) as looking:
        job.hear()
        (report,) = looking.round().probes
    assert (report.name, report.ok) == ("shim", False)
    assert report.problem == f"{tmp_path / 'file'} is a regular file, not a folder, so its records are not read"


def test_a_round_that_may_read_little_goes_on_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpmon.probes.shim.probe.MOST_BYTES", 1)
    with Job("blocked.py", folder=tmp_path) as job, look(job.pid) as looking:
        child = job.hear_pid()
        job.hear()
        seen = [{row.pid for row in looking.round().queue_records} for _ in range(2)]
    assert sorted(map(len, seen)) == [1, 2]
    assert seen[1] == {job.pid, child}


def test_more_files_than_are_kept_in_mind_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpmon.probes.shim.probe.MOST_FILES", 1)
    with Job("blocked.py", folder=tmp_path) as job, look(job.pid) as looking:
        job.hear()
        job.hear()
        snapshot = looking.round()
    assert len(snapshot.shims) == 1
    assert [report.problem for report in snapshot.probes] == ["only 1 of the shim's files are read"]


# Whose records are believed


STRANGER = 1001

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file that a job wrote."""
    folder = tmp_path_factory.mktemp("written")
    run("items.py", "fork", folder=folder)
    return min(folder.iterdir()).read_bytes()


def plant(written: bytes, folder: Path, pid: int) -> Path:
    """A file that says that it is of a process which has none."""
    name = Name(pid, start_ticks(pid) or 0, own_namespace())
    content = bytearray(written)
    words = memoryview(content).cast("Q")
    words[layout.PID], words[layout.START_TICKS] = name.pid, name.start_ticks
    words[layout.IDENTITY_SEAL] = layout.seal(words[1 : layout.IDENTITY_SEAL])
    path = folder / name.file()
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def lend(path: Path) -> None:
    path.chmod(0o620)


def give_away(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def name_twice(path: Path) -> None:
    path.with_name("other").hardlink_to(path)


BY_OTHERS = {
    "it has 2 hard links": name_twice,
    f"it may be written by others than {name_of(os.geteuid())}: chmod go-w": lend,
    f"it belongs to {name_of(STRANGER)}, not to root": give_away,
}


@needs_root
@pytest.mark.parametrize("why", BY_OTHERS)
def test_what_others_could_have_written_is_not_believed(why: str, written: bytes, tmp_path: Path) -> None:
    with Job("becomes.py", folder=None, MPMON_RUN_DIR=str(tmp_path)) as job, look(job.pid) as looking:
        job.hear()
        path = plant(written, tmp_path, job.pid)
        assert {row.pid for row in looking.round().queue_records} == {job.pid}, "what is planted looks right"
        path.unlink()
        looking.round()
        BY_OTHERS[why](plant(written, tmp_path, job.pid))
        snapshot = looking.round()
    assert (snapshot.queue_records, snapshot.shims) == ((), ())
    assert [(row.pid, row.reason) for row in snapshot.unknowns] == [(job.pid, f"its shim's file is not trusted: {why}")]
    assert [(report.name, report.ok) for report in snapshot.probes] == [("shim", False)]


def lead_elsewhere(folder: Path) -> None:
    other = folder.rename(folder.with_name(f"{folder.name} elsewhere"))
    folder.symlink_to(other)
    os.lchown(folder, STRANGER, STRANGER)


FOLDERS = {
    f"belongs to {name_of(STRANGER)}, not to root": give_away,
    f"may be written by others than {name_of(os.geteuid())}: chmod go-w": lambda folder: folder.chmod(0o777),
    "is a symbolic link, not a folder": lead_elsewhere,
}


@needs_root
@pytest.mark.parametrize("why", FOLDERS)
def test_a_folder_of_others_is_told_and_hides_no_other_one(
    why: str, written: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job in three folders: two that a stranger has laid ready, and the one that is good."""
    bad, good, worse = (tmp_path / name for name in ("bad", "good", "worse"))
    with Job("becomes.py", folder=None) as job, look(job.pid) as looking:
        job.hear()
        for folder in (bad, good, worse):
            folder.mkdir(mode=0o700)
            path = plant(written, folder, job.pid)
        for folder in (bad, worse):
            FOLDERS[why](folder)
        monkeypatch.setattr(shim_folders, "default_folders", lambda *_: (str(bad), str(good), str(worse)))
        snapshot = looking.round()
        assert [file.place.path for file in looking.probe._files.values()] == [str(good / path.name)]
    assert {row.pid for row in snapshot.queue_records} == {job.pid}
    assert [report.problem for report in snapshot.probes] == [f"{bad} {why}, so its records are not read"]


@needs_root
def test_what_root_has_written_for_another_user_is_believed(written: bytes, tmp_path: Path) -> None:
    become = f"import os; os.setgid({STRANGER}); os.setuid({STRANGER}); print('ready', flush=True); input()"
    with sleeper(become, env={**os.environ, "MPMON_RUN_DIR": str(tmp_path)}) as child, look(child.pid) as looking:
        path = plant(written, tmp_path, child.pid)
        assert {row.pid for row in looking.round().queue_records} == {child.pid}
        path.unlink()
        give_away(plant(written, tmp_path, child.pid))
        assert {row.pid for row in looking.round().queue_records} == {child.pid}


def test_a_folder_behind_a_link_of_ones_own_is_read(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("folder")
    with Job("blocked.py", folder=tmp_path / "link") as job, look(job.pid) as looking:
        job.hear()
        job.hear()
        assert job.pid in {row.pid for row in looking.round().queue_records}
    assert job.pid in files(tmp_path / "folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have a namespace of its own")
def test_an_absolute_link_in_a_container_leads_to_the_containers_files(
    own_shm: str, openat2: None, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/dev/shm")
    folder = tmp_path / "link" / f"{tmp_path.name}-{os.getpid()}"
    shim = {"MPMON_RUN_DIR": str(folder), "PYTHONPATH": str(STARTUP)}
    with AnyJob(own_shm, "8m", str(PROGRAMS / "blocked.py"), **shim) as job, look(job.pid) as looking:
        job.hear()
        job.hear()
        assert job.pid in {row.pid for row in looking.round().queue_records}
        assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have a namespace of its own")
def test_processes_of_one_container_are_asked_for_their_folder_once(
    own_shm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And through another one of them when the first has ended."""
    asked: list[str] = []

    def noted(folder: Place, *more: object) -> object:
        asked.append(str(folder))
        return files_in(folder, *more)  # type: ignore[arg-type]

    files_in = probe._files_in
    monkeypatch.setattr(probe, "_files_in", noted)
    shim = {"MPMON_RUN_DIR": f"/dev/shm/{tmp_path.name}", "PYTHONPATH": str(STARTUP)}
    with AnyJob(own_shm, "8m", str(PROGRAMS / "blocked.py"), **shim) as job, look(job.pid) as looking:
        child = job.hear_pid()
        job.hear()
        pids = {row.pid for row in looking.round().shims}
        assert pids == {job.pid, child}
        assert len(asked) == 1
        os.kill(child, signal.SIGKILL)
        while {row.pid: row.alive for row in looking.round().shims} != {job.pid: True, child: False}:
            pass
        assert looking.round().unknowns == ()


# Cleaning


def test_files_of_dead_jobs_go_but_those_of_the_newest(tmp_path: Path) -> None:
    for _ in range(3):
        started = subprocess.run(
            [sys.executable, "-c", _JOB], env={**os.environ, "MPMON_RUN_DIR": str(tmp_path)}, start_new_session=True,
            cwd=Path(__file__).parent.parent.parent, check=True,
        )  # fmt: skip
        assert started.returncode == 0
    assert len(files(tmp_path)) == 3
    newest = max(files(tmp_path).values(), key=lambda file: file.name.start_ticks)
    other = tmp_path / "notes.txt"
    other.touch()
    removed = clean([str(tmp_path), str(tmp_path)])
    assert len(removed) == 2
    assert all(file.bytes > 0 and not Path(file.path).exists() for file in removed)
    assert set(tmp_path.iterdir()) == {Path(newest.place.path), other}
    assert clean([str(tmp_path)]) == ()
    assert [file.pid for file in clean([str(tmp_path)], keep_newest=False)] == [newest.name.pid]
    assert list(tmp_path.iterdir()) == [other]


_JOB = "import mpmon.shim, multiprocessing; mpmon.shim.install(); multiprocessing.SimpleQueue()"


def test_files_of_a_living_job_stay_those_of_its_dead_processes_too(tmp_path: Path) -> None:
    with Job("blocked.py", folder=tmp_path) as job:
        child = job.hear_pid()
        job.hear()
        os.kill(child, signal.SIGKILL)
        while start_ticks(child) is not None:
            pass
        assert clean([str(tmp_path)], keep_newest=False) == ()
        assert len(files(tmp_path)) == 2


def test_files_of_another_pid_namespace_stay(tmp_path: Path) -> None:
    own = Name.own()
    (tmp_path / Name(2**22, 1, own.namespace + 1).file()).touch()
    assert clean([str(tmp_path)], keep_newest=False) == ()


def dead(folder: Path, ending: str = RECORDS, content: bytes = b"", *, pid: int = 2**22) -> Path:
    """A file of a process that has ended."""
    path = folder / Name(pid, 1, own_namespace()).file(ending)
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def word(number: int) -> bytes:
    return number.to_bytes(8, sys.byteorder)


SHIMS = {
    "cut": (RECORDS, word(layout.MAGIC)),
    "of another version": (RECORDS, word(layout.MAGIC - 1) + b"more"),
    "just being made": (RECORDS, bytes(layout.SIZE)),
    "of which nothing came": (RECORDS, b""),
    "stacks": (STACKS, b"Current thread 0x00007f0000000001 (most recent call first):\n"),
    "stacks of several": (STACKS, b"Thread 0x00007f0000000001 (most recent call first):\n"),
    "stacks nobody asked for": (STACKS, b""),
}


@pytest.mark.parametrize("kind", SHIMS)
def test_a_file_of_the_shim_goes_with_its_process(kind: str, tmp_path: Path) -> None:
    path = dead(tmp_path, *SHIMS[kind])
    living = tmp_path / Name.own().file(SHIMS[kind][0])
    living.touch(mode=0o600)
    living.write_bytes(SHIMS[kind][1])
    assert [file.path for file in clean([str(tmp_path)], keep_newest=False)] == [str(path)]
    assert living.exists()


def device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))


def replace_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


NOT_OURS: dict[str, Callable[[Path], object]] = {
    "other content": lambda path: path.write_bytes(b"precious"),
    "a device": replace_by(device),
    "a pipe": replace_by(os.mkfifo),
    "a link": replace_by(lambda path: path.symlink_to("/etc/passwd")),
    "a folder": replace_by(Path.mkdir),
    "two names": name_twice,
    "another user's": give_away,
    "written by others": lend,
}


@needs_root
@pytest.mark.parametrize("ending", [RECORDS, STACKS])
@pytest.mark.parametrize("kind", NOT_OURS)
def test_a_name_alone_removes_nothing(kind: str, ending: str, tmp_path: Path) -> None:
    path = dead(tmp_path, ending)
    NOT_OURS[kind](path)
    before = path.lstat().st_ino
    assert clean([str(tmp_path)], keep_newest=False) == ()
    assert path.lstat().st_ino == before


def test_what_came_to_stand_there_meanwhile_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dead(tmp_path)
    remove = cleaning._remove

    def swap(leftover: object) -> object:
        path.rename(tmp_path / "old")
        path.write_bytes(b"precious")
        return remove(leftover)  # type: ignore[arg-type]

    monkeypatch.setattr(cleaning, "_remove", swap)
    assert clean([str(tmp_path)], keep_newest=False) == ()
    assert path.read_bytes() == b"precious"


@needs_root
def test_root_cleans_up_after_a_user_and_keeps_off_what_is_not_that_users(tmp_path: Path) -> None:
    mine, theirs, anybodys = dead(tmp_path), dead(tmp_path, pid=2**22 + 1), dead(tmp_path, pid=2**22 + 2)
    for path in (tmp_path, theirs):
        give_away(path)
    os.chown(anybodys, 65534, 65534)
    assert {file.path for file in clean([str(tmp_path)], keep_newest=False)} == {str(mine), str(theirs)}
    assert anybodys.exists()


@needs_root
def test_a_user_cleans_up_what_is_its_own(tmp_path: Path) -> None:
    dead(tmp_path)
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        Path(parent).chmod(0o755)
        folders = {name: Path(parent) / name for name in ("own", "of root", "of all")}
        for folder in folders.values():
            folder.mkdir(mode=0o700)
            give_away(dead(folder))
            give_away(folder)
        os.chown(folders["of root"], 0, 0)
        folders["of root"].chmod(0o755)
        folders["of all"].chmod(0o777)
        # What is imported on the way may not be readable any more to another user.
        assert clean([str(tmp_path)], keep_newest=False)
        reading, writing = os.pipe()
        if os.fork() == 0:
            with suppress(BaseException):
                os.setuid(STRANGER)
                why = [refusal(str(folder)) for folder in folders.values()]
                removed = [file.path for file in clean(map(str, folders.values()), keep_newest=False)]
                os.write(writing, json.dumps([removed, why]).encode())
            os._exit(0)
        os.wait()
        os.close(writing)
        with os.fdopen(reading, "rb") as said:
            removed, why = json.load(said)
    assert [Path(path).parent for path in removed] == [folders["own"]]
    assert why == ["", "", f"it may be written by others than {name_of(STRANGER)}: chmod go-w"]


def test_a_folder_that_is_not_there_is_clean(tmp_path: Path) -> None:
    assert clean([str(tmp_path / "none")]) == ()


def test_a_job_that_ended_well_left_its_last_words(tmp_path: Path) -> None:
    run("items.py", "fork", folder=tmp_path)
    assert sum(len(file.queues) for file in files(tmp_path).values()) == 6
