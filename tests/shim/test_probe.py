"""Finding the files of a job, and removing those of dead ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mpmon.model import Process
from mpmon.probes.files import Proc
from mpmon.probes.shim import clean
from mpmon.probes.shim.folders import home_of
from mpmon.shim.places import Name, default_folders, run_folder, start_ticks
from tests.shim.running import Job, files, look, run


def process(**fields: object) -> Process:
    known: dict[str, object] = {"pid": os.getpid(), "start_time": 1.0, "ppid": 1, "state": "S", "name": "python"}
    return Process(**{**known, "threads": 1, "cpu_s": 0.0, "rss_bytes": 0, **fields})  # type: ignore[arg-type]


def folders(**fields: object) -> tuple[str, ...]:
    return home_of(Proc(), process(**fields), 7).folders


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
    assert report.problem == f"{tmp_path / 'file'}: not a directory"


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
    assert set(tmp_path.iterdir()) == {Path(newest.path), other}
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


def test_a_file_that_is_damaged_goes_with_its_process(tmp_path: Path) -> None:
    own = Name.own()
    dead, living = tmp_path / Name(2**22, 1, own.namespace).file(".stacks"), tmp_path / own.file()
    dead.write_bytes(b"garbage")
    living.write_bytes(b"garbage")
    assert [file.path for file in clean([str(tmp_path)], keep_newest=False)] == [str(dead)]
    assert living.exists()


def test_a_folder_that_is_not_there_is_clean(tmp_path: Path) -> None:
    assert clean([str(tmp_path / "none")]) == ()


def test_a_job_that_ended_well_left_its_last_words(tmp_path: Path) -> None:
    run("items.py", "fork", folder=tmp_path)
    assert sum(len(file.queues) for file in files(tmp_path).values()) == 6
