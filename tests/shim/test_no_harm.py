"""Whatever goes wrong with the shim, the job ends as it would have."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.shim.places import Name
from tests.shim.running import PROGRAMS, STARTUP, Job, environment, files, kill_anywhere, look, run

ROOT = os.geteuid() == 0


@contextlib.contextmanager
def tmpfs(place: Path, size: str) -> Iterator[Path]:
    """A file system with room for so much."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def unharmed(folder: Path, program: str = "items.py", argument: str = "fork") -> str:
    """What the job complains of beyond what it complains of without the shim."""
    without = run(program, argument, folder=None)
    with_it = run(program, argument, folder=folder)
    assert (with_it.status, with_it.said) == (without.status, without.said) == (0, without.said)
    return with_it.complained.removeprefix(without.complained)


@pytest.mark.skipif(not ROOT, reason="only root may mount a tmpfs")
def test_a_full_tmpfs_turns_the_shim_off_with_one_line(tmp_path: Path) -> None:
    with tmpfs(tmp_path, "8k") as folder:
        said = unharmed(folder).splitlines()
        assert len(said) == 1
        assert said[0].startswith("mpmon: shim off in pid ")
        assert "No space left" in said[0]
        assert not list(folder.iterdir())


@pytest.mark.skipif(not ROOT, reason="only root may mount a tmpfs")
def test_a_tmpfs_that_gets_full_costs_records_and_nothing_else(tmp_path: Path) -> None:
    with tmpfs(tmp_path, "20k") as folder:
        assert unharmed(folder, "many_queues.py", "200") == ""
        (file,) = files(folder).values()
        assert file.dropped > 0
        assert 0 < len(file.queues) < 200


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = unharmed(tmp_path / "file" / "folder").splitlines()
    assert len(said) == 1
    assert said[0].startswith("mpmon: shim off in pid ")


@pytest.mark.skipif(not ROOT, reason="only root may give a folder away")
def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    assert "belongs to another user" in unharmed(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "Permission denied" in unharmed(tmp_path)


def test_a_process_without_standard_error_is_unharmed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = subprocess.run(
        f"exec {os.sys.executable} {PROGRAMS / 'items.py'} fork 2>&-", shell=True, capture_output=True, text=True,
        env=environment(tmp_path / "file" / "folder"), check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "380 0\n")


def test_a_file_is_whole_whenever_its_process_is_killed(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(10):
        with Job("restless.py", folder=tmp_path) as job, look(job.pid) as looking:
            child = job.hear_pid()
            for _ in range(chance.randrange(1, 60)):
                snapshot = looking.round()
                assert not snapshot.unknowns
                for row in snapshot.queue_records:
                    assert row.puts - row.sent >= -1 or row.kind == "SimpleQueue"
            for pid in (child, job.pid):
                kill_anywhere(pid)
            job.end()
            found = files(tmp_path)
            assert {job.pid, child} <= found.keys()
            for file in (found[job.pid], found[child]):
                assert file.dropped == 0
                assert file.queues


def test_descriptors_and_the_module_path_are_those_of_a_job_without_it(tmp_path: Path) -> None:
    code = (
        "import multiprocessing.queues, os, sys\n"
        "queue = multiprocessing.SimpleQueue(); queue.put(1); queue.get()\n"
        "names = [os.path.realpath('/proc/self/fd/' + number) for number in os.listdir('/proc/self/fd')]\n"
        "own = [name for name in names if '.mpmon' not in name]\n"
        "variables = sorted(os.environ.keys() - {'MPMON_RUN_DIR', 'PYTHONPATH'})\n"
        "print(len(own), sys.path, 'sitecustomize' in sys.modules, variables)\n"
    )
    said = [
        subprocess.run(
            [os.sys.executable, "-c", code], env=environment(folder), capture_output=True, text=True, check=True
        )
        for folder in (None, tmp_path)
    ]
    assert said[0].stdout == said[1].stdout
    assert files(tmp_path)


def test_the_sitecustomize_that_is_hidden_is_run(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys; sys.own = __file__\n", encoding="utf-8")
    path = os.pathsep.join([str(STARTUP), str(hidden)])
    code = "import sys, sitecustomize; print(sys.own == sitecustomize.__file__, hasattr(sys, '_mpmon_shim'))"
    said = subprocess.run(
        [os.sys.executable, "-c", code], env=environment(tmp_path, PYTHONPATH=path), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert said.stdout == "True True\n"


def test_a_sitecustomize_that_fails_is_reported_as_always(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("raise ValueError('broken')\n", encoding="utf-8")
    said = [
        subprocess.run([os.sys.executable, "-c", "print(1)"], env=environment(tmp_path, PYTHONPATH=path),
                       capture_output=True, text=True, check=True)
        for path in (str(hidden), os.pathsep.join([str(STARTUP), str(hidden)]))
    ]  # fmt: skip
    assert said[0].stderr == said[1].stderr
    assert "broken" in said[0].stderr


def test_a_folder_does_not_fill_up_with_files_of_the_dead(tmp_path: Path) -> None:
    own = Name.own()
    for number in range(200):
        (tmp_path / Name(2**22 + number, number, own.namespace).file()).touch()
    run("items.py", "fork", folder=tmp_path)
    left = [path for path in tmp_path.iterdir() if path.stat().st_size == 0]
    assert len(left) < 80
    assert {Name.parse(path.name, ".mpmon").start_ticks for path in left} > set(range(150, 200)), "the oldest go first"
