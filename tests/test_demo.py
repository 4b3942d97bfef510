"""The demo's scenes really hang, and nothing of them is left however mpmon ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from mpmon import demo
from mpmon.demo import Scene
from mpmon.demo import running as demo_running
from mpmon.demo.running import RunningScene
from mpmon.errors import MpmonError, UsageError
from tests.patience import becomes, status_of
from tests.shim.running import look

Key = tuple[int, float]
HOME = Path(demo.__file__).parent.parent.parent


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that nobody else uses, with a name short enough for sockets in it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.fixture
def scene_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes a scene of some lines of Python, gives its name."""

    def make(code: str) -> str:
        modules = tmp_path / "modules"
        modules.mkdir()
        (modules / "own_scene.py").write_text(textwrap.dedent(code), encoding="utf-8")
        monkeypatch.syspath_prepend(str(modules))
        monkeypatch.setattr(demo, "SCENES", (Scene("own", "a scene of the test", "none", "own_scene"),))
        return "own"

    return make


def family(pid: int) -> list[psutil.Process]:
    """The job's main process and all below."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def keys(processes: list[psutil.Process]) -> set[Key]:
    return {(process.pid, process.create_time()) for process in processes}


def is_alive(key: Key) -> bool:
    try:
        process = psutil.Process(key[0])
        return process.create_time() == key[1] and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def supervisor_of(running: RunningScene) -> psutil.Process:
    supervisor = psutil.Process(running.pid).parent()
    assert supervisor is not None
    return supervisor


def statuses(pid: int) -> list[str]:
    return sorted(process.status() for process in family(pid)[1:])


WORKERS = {
    "loader": ["sleeping", "sleeping"],
    "spin": ["running", "sleeping"],
    "stopped": ["sleeping", "stopped"],
    "dead": ["sleeping", "sleeping", "zombie"],
    "queue-join": ["sleeping"],
    "lock-cycle": ["sleeping", "sleeping"],
    "ddp": ["sleeping"] * 4,
}
"""States of the children once the hang is established."""


def test_every_scene_is_tried_here() -> None:
    assert [*WORKERS, "straggler", "ipc", "healthy"] == [scene.name for scene in demo.scenes()]


@pytest.mark.parametrize("name", WORKERS)
def test_a_scene_hangs_and_leaves_nothing(name: str, temporary: Path) -> None:
    if next(scene for scene in demo.scenes() if scene.name == name).needs_torch:
        pytest.importorskip("torch")
    with demo.start(name) as running:
        assert becomes(lambda: statuses(running.pid) == WORKERS[name]), statuses(running.pid)
        everyone = keys([*family(running.pid), supervisor_of(running)])
        assert becomes(lambda: psutil.Process(running.pid).status() == "sleeping")
        assert any(temporary.iterdir())
    assert not [key for key in everyone if is_alive(key)]
    assert not list(temporary.iterdir())


def test_the_healthy_scene_goes_on(temporary: Path) -> None:
    with demo.start("healthy") as running:
        trainer = psutil.Process(running.pid)
        used = trainer.cpu_times().user
        assert becomes(lambda: trainer.cpu_times().user > used)
        everyone = keys(family(running.pid))
    assert not [key for key in everyone if is_alive(key)]
    assert not list(temporary.iterdir())


def test_ranks_of_which_one_is_slow_go_on(temporary: Path) -> None:
    pytest.importorskip("torch")
    with demo.start("straggler") as running:
        ranks = psutil.Process(running.pid).children()
        assert len(ranks) == 4
        assert [len(rank.children()) for rank in ranks] == [1] * 4
        runs = [rank.num_ctx_switches().voluntary for rank in ranks]
        assert becomes(
            lambda: all(rank.num_ctx_switches().voluntary > before for rank, before in zip(ranks, runs, strict=True))
        )
        everyone = keys(family(running.pid))
    assert not [key for key in everyone if is_alive(key)]
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("name", [scene.name for scene in demo.scenes() if scene.needs_torch])
def test_what_cannot_be_shown_without_torch_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_running, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=f"the scene {name} needs torch") as failure:
        demo.start(name)
    assert "mpmon demo loader" in failure.value.remedy


def test_a_consumer_keeps_tensors_and_the_shim_tells_whose(temporary: Path) -> None:
    pytest.importorskip("torch")
    with demo.start("ipc") as running, look(running.pid) as looking:
        (consumer,) = [child.pid for child in family(running.pid)[1:] if "spawn_main" in " ".join(child.cmdline())]
        snapshot = looking.round()
        taken = {row.pid: row for row in snapshot.queue_records}
        assert taken.keys() == {running.pid, consumer}
        assert taken[running.pid].object == taken[consumer].object
        assert taken[running.pid].puts >= taken[consumer].gets >= 6
        assert (taken[running.pid].put_site or "").endswith(" in publish")
        everyone = keys(family(running.pid))
    assert not [key for key in everyone if is_alive(key)]
    assert not list(temporary.iterdir())


def test_a_scene_can_be_closed_twice() -> None:
    running = demo.start("lock-cycle")
    running.close()
    running.close()
    assert not psutil.pid_exists(running.pid)


def test_without_torch_the_label_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('hidden by the test')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with demo.start("stopped") as running:
        assert running.label.endswith("(same shape without torch)")
        assert running.expected_cause == "stopped"
        assert becomes(lambda: statuses(running.pid) == ["sleeping", "stopped"])


def test_the_scene_does_not_hold_the_pipe_of_the_supervisor() -> None:
    with demo.start("dead") as running:
        supervisor = supervisor_of(running)
        pipes = {os.readlink(f"/proc/{supervisor.pid}/fd/{number}") for number in (0, 1)}
        alive = [process for process in family(running.pid) if process.status() != psutil.STATUS_ZOMBIE]
        held = {
            os.readlink(descriptor) for process in alive for descriptor in Path(f"/proc/{process.pid}/fd").iterdir()
        }
        assert not pipes & held


def test_a_scene_is_its_own_session_and_not_below_the_supervisor_in_the_tree() -> None:
    with demo.start("dead") as running:
        supervisor = supervisor_of(running)
        assert os.getsid(running.pid) == running.pid
        assert supervisor.pid not in {process.pid for process in family(running.pid)}
        assert supervisor.parent() == psutil.Process()


def test_a_scene_loads_nothing_of_mpmon_but_its_helpers(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('hidden by the test')\n", encoding="utf-8")
    code = "import sys, mpmon.demo.scenes.loader; print(*sorted(m for m in sys.modules if m.startswith('mpmon')))"
    path = f"{HOME}{os.pathsep}{tmp_path}"
    loaded = subprocess.check_output(
        [sys.executable, "-c", code], text=True, env={**os.environ, "PYTHONPATH": path}
    ).split()
    assert loaded == [
        "mpmon",
        "mpmon.demo",
        "mpmon.demo.handshake",
        "mpmon.demo.loader_without_torch",
        "mpmon.demo.loading",
        "mpmon.demo.scenes",
        "mpmon.demo.scenes.loader",
    ]


def test_an_unknown_scene_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no demo scene 'nope'") as failure:
        demo.start("nope")
    assert "queue-join" in failure.value.remedy


def test_a_scene_that_crashes_shows_what_it_wrote(scene_of: Callable[[str], str], temporary: Path) -> None:
    name = scene_of("print('reading weights')\nraise ValueError('no such model')\n")
    with pytest.raises(MpmonError, match=r"ended before it hung \(status 1\)") as failure:
        demo.start(name)
    assert "no such model" in str(failure.value)
    assert failure.value.remedy
    assert not list(temporary.iterdir())


def test_a_scene_that_never_hangs_is_given_up(scene_of: Callable[[str], str], temporary: Path) -> None:
    name = scene_of("import signal\nsignal.pause()\n")
    with pytest.raises(MpmonError, match="did not hang within 1 seconds"):
        demo.start(name, ready_within_s=1.0)
    assert not list(temporary.iterdir())


def test_a_supervisor_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(MpmonError, match="supervisor failed"):
        demo.start("dead")


SHARING = """
    import multiprocessing, os, signal, subprocess, sys
    from multiprocessing.shared_memory import SharedMemory
    from mpmon.demo.handshake import ready

    def work(lock):
        with lock:
            ready()
            signal.pause()

    if __name__ == "__main__":
        memory = SharedMemory(create=True, size=4096)
        print(memory.name, flush=True)
        escaped = "import os, signal; os.setsid(); os.fork() and os._exit(0); signal.pause()"
        subprocess.run([sys.executable, "-c", escaped])
        spawn = multiprocessing.get_context("spawn")
        lock = spawn.Lock()
        spawn.Process(target=work, args=(lock,)).start()
        signal.pause()
"""
"""Shared memory, a named semaphore, a resource tracker, and a daemon in a session of its own."""


def test_shared_memory_trackers_and_daemons_are_gone(scene_of: Callable[[str], str], temporary: Path) -> None:
    with demo.start(scene_of(SHARING)) as running:
        everyone = supervisor_of(running).children(recursive=True)
        commands = [" ".join(process.cmdline()) for process in everyone]
        assert any("resource_tracker" in command for command in commands)
        assert any("os.setsid()" in command for command in commands)
        all_keys = keys(everyone)
        names = names_of(running.pid)
        assert len(names) == 2
        assert all(name.exists() for name in names)
    assert not [key for key in all_keys if is_alive(key)]
    assert not [name for name in names if name.exists()]
    assert not list(temporary.iterdir())


def names_of(pid: int) -> set[Path]:
    """The names in /dev/shm of what a process has mapped there."""
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    inodes = {int(line.split()[4]) for line in maps.splitlines() if "/dev/shm/" in line}
    return {path for path in Path("/dev/shm").iterdir() if path.lstat().st_ino in inodes}


HOLD = """
import sys, time
from mpmon import demo
with demo.start(sys.argv[1]) as running:
    print(running.pid, flush=True)
    while True:
        time.sleep(0.1)  # a signal that comes just before signal.pause() would not end it
"""


@pytest.mark.parametrize("name", ["loader", "stopped", "dead"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_all_is_gone_when_the_one_who_started_it_is(name: str, end: signal.Signals, temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(HOME)},
    ) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        supervisor = psutil.Process(pid).parent()
        assert supervisor is not None
        everyone = keys([supervisor, *family(pid)])
        os.killpg(holder.pid, end)
        assert becomes(lambda: not any(is_alive(key) for key in everyone))
        assert becomes(lambda: not list(temporary.iterdir()))
        assert status_of(holder) == -end


def test_a_long_temporary_folder_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    with demo.start("loader") as running:
        folder = Path(psutil.Process(running.pid).environ()["TMPDIR"])
        assert folder.parent == Path("/tmp")
    assert not folder.exists()


def test_ctrl_c_while_a_scene_starts(tmp_path: Path, temporary: Path) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "slow_scene.py").write_text(
        f"import os, signal\nopen({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}.')\nsignal.pause()\n", "utf-8"
    )
    code = "from mpmon import demo; demo.SCENES = (demo.Scene('slow', '', 'none', 'slow_scene'),); demo.start('slow')"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": f"{HOME}{os.pathsep}{modules}"},
    ) as holder:
        said = tmp_path / "pid"
        assert becomes(lambda: said.exists() and said.read_text("utf-8").endswith("."))
        everyone = keys(family(int(said.read_text("utf-8")[:-1])))
        os.killpg(holder.pid, signal.SIGINT)
        assert becomes(lambda: not any(is_alive(key) for key in everyone))
        assert becomes(lambda: not list(temporary.iterdir()))
