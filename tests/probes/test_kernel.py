"""What each thread is blocked in, and who holds the other end."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.codec import decode, encode
from mpmon.model import Blocked, KernelObject
from mpmon.probes.file_locks import file_locks
from mpmon.probes.files import Proc
from mpmon.probes.kernel import KernelLook, clocks
from mpmon.probes.kernel.holdings import file_name, object_name
from tests.patience import patience
from tests.sleepers import SLEEP, sleeper

NOW = 1_767_002_000.0
LATE_S = 30.0
"""More than a loaded machine takes to wake a sleeper."""

STACK = "0x7ffc00001000 0x7f0200000000"


def look(proc: Proc, *pids: int) -> KernelLook:
    found = KernelLook(proc, NOW)
    found.look(pids)
    return found


def calls(proc: Proc, text: str, pid: int = 4100) -> Blocked:
    """The row of a process whose main thread is in this system call."""
    Path(proc.path(pid, "task", pid, "syscall")).write_text(f"{text} {STACK}\n")
    return look(proc, pid).blocked[pid][0]


def test_a_poll_set(recorded: Proc) -> None:
    row = look(recorded, 4100).blocked[4100][0]
    assert (row.syscall, row.waits_on, row.timeout_s, row.wakes_at) == ("poll", ("pipe:1502", "socket:2001"), 5.0, None)
    assert row.wchan == "do_sys_poll"
    assert not row.writes


@pytest.mark.parametrize(
    ("call", "name", "waits_on", "timeout"),
    [
        ("7 0x1000 0x2 0xffffffff 0x0 0x0 0x0", "poll", ("pipe:1502", "socket:2001"), None),
        ("271 0x1000 0x1 0x1100 0x0 0x8 0x0", "ppoll", ("pipe:1502",), 2.5),
        ("232 0x6 0x0 0x40 0x64 0x0 0x0", "epoll_wait", ("pipe:1502", "socket:2001"), 0.1),
        ("23 0x6 0x1300 0x0 0x0 0x0 0x0", "select", ("socket:2001", "pipe:1502"), None),
        ("128 0x1000 0x0 0x1100 0x8 0x0 0x0", "rt_sigtimedwait", (), 2.5),
        ("0 0x5 0x0 0x4 0x0 0x0 0x0", "read", ("pipe:1502",), None),
        ("1 0x1 0x0 0x4 0x0 0x0 0x0", "write", ("pipe:1501",), None),
        ("45 0x3 0x0 0x4 0x0 0x0 0x0", "recvfrom", ("socket:2001",), None),
        ("0 0x8 0x0 0x8 0x0 0x0 0x0", "read", ("eventfd:4100:8",), None),
        ("0 0x63 0x0 0x8 0x0 0x0 0x0", "read", (), None),
        ("61 0xffffffff 0x0 0x0 0x0 0x0 0x0", "wait4", ("process:any",), None),
        ("61 0x19 0x0 0x0 0x0 0x0 0x0", "wait4", ("process:4121",), None),
        ("247 0x1 0x19 0x0 0x4 0x0 0x0", "waitid", ("process:4121",), None),
        ("61 0x1019 0x0 0x0 0x0 0x0 0x0", "wait4", (), None),
        ("7 0x9999999 0x1 0xffffffff 0x0 0x0 0x0", "poll", (), None),
        ("999 0x1 0x0 0x0 0x0 0x0 0x0", "syscall 999", (), None),
    ],
)
def test_what_a_call_waits_on(
    recorded: Proc, call: str, name: str, waits_on: tuple[str, ...], timeout: float | None
) -> None:
    row = calls(recorded, call)
    assert (row.syscall, sorted(row.waits_on), row.timeout_s) == (name, sorted(waits_on), timeout)


def test_the_signals_that_a_process_waits_for() -> None:
    code = "import signal; print('ready', flush=True); signal.sigwait([signal.SIGUSR1, signal.SIGALRM])"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        rows = (look(Proc(), child.pid).blocked[child.pid][0] for _ in patience(10))
        row = next(row for row in rows if row.syscall == "rt_sigtimedwait")
        child.kill()
    assert row.signals == (signal.SIGUSR1, signal.SIGALRM)


def test_what_wakes_a_poll_once(recorded: Proc) -> None:
    watched = Path(recorded.path(4100, "fdinfo", 6))
    watched.write_text(watched.read_text().replace("19 data:                3", "80000019 data:                3"))
    row = calls(recorded, "232 0x6 0x0 0x40 0x64 0x0 0x0")
    assert (row.once, sorted(row.waits_on)) == (("socket:2001",), ["pipe:1502", "socket:2001"])


@pytest.mark.parametrize(
    ("call", "name", "waits_on"),
    [
        ("58 0x1 0x2 0x0 0x0 0x0 0x0", "vfork", ("process:4121",)),
        ("56 0x4111 0x0 0x0 0x0 0x0 0x0", "clone", ("process:4121",)),
        ("56 0x1200011 0x0 0x0 0x0 0x0 0x0", "clone", ()),
    ],
)
def test_one_that_has_lent_its_memory_waits_for_its_youngest_child(
    recorded: Proc, call: str, name: str, waits_on: tuple[str, ...]
) -> None:
    Path(recorded.path(4100, "task", 4100, "children")).write_text("4117 4121 ")
    row = calls(recorded, call)
    assert (row.syscall, row.waits_on) == (name, waits_on)


LENDS = """
import os, sys
print('ready', flush=True)
file = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)
os.posix_spawn('/bin/true', ['true'], {}, file_actions=[file])
"""
"""Its child opens a pipe that nobody writes to, before it becomes a program."""


def test_a_real_one_that_has_lent_its_memory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with sleeper(LENDS, arguments=[str(tmp_path / "pipe")]) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        state = Path(f"/proc/{parent.pid}/stat")
        while not children.read_text() or state.read_text().split()[2] != "D":
            assert parent.poll() is None
        child = int(children.read_text())
        try:
            (row,) = look(Proc(), parent.pid).blocked[parent.pid]
            assert row.waits_on == (f"process:{child}",)
        finally:
            # Until then the parent cannot be waited for.
            os.kill(child, signal.SIGKILL)


def test_a_write_waits_for_room(recorded: Proc) -> None:
    assert calls(recorded, "1 0x1 0x0 0x4 0x0 0x0 0x0").writes


def test_a_pidfd_is_the_process_it_names(recorded: Proc) -> None:
    Path(recorded.path(4100, "mem")).write_bytes(bytes(0x1000) + b"\7\0\0\0\1\0\0\0")
    assert calls(recorded, "7 0x1000 0x1 0xffffffff 0x0 0x0 0x0").waits_on == ("process:4121",)


def test_a_semaphore_in_shared_memory_is_one_object_in_all_processes(recorded: Proc) -> None:
    found = look(recorded, 4100, 4121)
    name = "semaphore:00:1a:77:0"
    assert found.blocked[4121][0].waits_on == (name,)
    assert found.objects[name] == KernelObject(
        id=name, kind="semaphore", path="/dev/shm/sem.mp-abc (deleted)", value=0, waiters=2
    )
    assert {row.pid for rows in found.handles.values() for row in rows if row.object == name} == {4100, 4121}


def test_a_futex_in_private_memory_belongs_to_one_process(recorded: Proc) -> None:
    row = look(recorded, 4100).blocked[4100][1]
    assert row.waits_on == ("futex:4100:0x7f0100000010",)


def test_the_owner_of_a_native_mutex(recorded: Proc) -> None:
    """Its thread 8, as the process counts in its pid namespace."""
    row = calls(recorded, "202 0x1200 0x80 0x2 0x0 0x0 0x0")
    item = look(recorded, 4100).objects[row.waits_on[0]]
    assert (item.kind, item.owner_tid) == ("mutex", 4101)


OWN_CLOCK = {0: 501000.25, 1: 401000.25}
"""Where the scheduler's clock of each CPU is when mpmon moves there, milliseconds."""


@pytest.fixture
def two_cpus(recorded: Proc, monkeypatch: pytest.MonkeyPatch) -> Proc:
    """A machine on which mpmon may run on two CPUs."""
    own = Path(recorded.path("thread-self"))
    own.mkdir(parents=True)

    def move(_: int, cpus: set[int]) -> None:
        (own / "sched").write_text(f"se.exec_start : {OWN_CLOCK[min(cpus)]}\n")

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(OWN_CLOCK))
    monkeypatch.setattr(os, "sched_setaffinity", move)
    return recorded


@pytest.mark.parametrize(("cpu", "last"), [(0, 500000.25), (1, 400000.25)])
def test_a_sleep_ends_by_itself(two_cpus: Proc, cpu: int, last: float) -> None:
    """Asleep for 2.5 s, since a second ago by the clock of the CPU on which it ran."""
    task = Path(two_cpus.path(4140, "task", 4140))
    (task / "stat").write_text(f"4140 (sleeper) S {'0 ' * 35}{cpu}\n")
    (task / "sched").write_text(f"se.exec_start : {last}\n")
    row = look(two_cpus, 4140).blocked[4140][0]
    assert (row.ran_at, row.wakes_at) == (pytest.approx(NOW - 1.0, abs=0.5), pytest.approx(NOW + 1.5, abs=0.5))


def test_the_clock_of_a_cpu_on_which_mpmon_may_not_run_is_not_known(two_cpus: Proc) -> None:
    Path(two_cpus.path(4140, "task", 4140, "stat")).write_text(f"4140 (sleeper) S {'0 ' * 35}7\n")
    assert look(two_cpus, 4140).blocked[4140][0].ran_at is None


def test_without_the_scheduler_s_clock_a_sleep_is_counted_from_now(recorded: Proc) -> None:
    row = look(recorded, 4140).blocked[4140][0]
    assert (row.syscall, row.ran_at, row.wakes_at) == ("clock_nanosleep", None, NOW + 2.5)


def test_a_sleeper_that_was_moved_to_another_cpu_does_not_tell_when_it_ran(two_cpus: Proc) -> None:
    Path(two_cpus.path(4140, "task", 4140, "sched")).write_text("se.exec_start : 0.000000\n")
    assert look(two_cpus, 4140).blocked[4140][0].ran_at is None


def test_when_a_real_sleeper_ran_is_told_alike_for_every_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was taken from each CPU since the machine started; on a busy machine it is much within a minute too."""
    monkeypatch.setattr(clocks, "_lags", {})
    allowed = os.sched_getaffinity(0)
    for cpu in sorted(allowed)[:4]:
        began = time.time()
        with sleeper(f"import os; os.sched_setaffinity(0, {{{cpu}}}); {SLEEP}") as child:
            found = KernelLook(Proc(), time.time())
            found.look([child.pid])
        [row] = found.blocked[child.pid]
        if row.ran_at is None:
            pytest.skip("this kernel does not tell")
        assert began - 0.1 <= row.ran_at <= time.time()
    assert os.sched_getaffinity(0) == allowed


def test_the_deadline_of_a_sleep_is_of_one_moment() -> None:
    """A thread that sleeps again and again for a millisecond is never said to sleep for longer."""
    program = "import time; print('ready', flush=True)\nwhile True:\n    time.sleep(0.001)"
    with sleeper(program) as child:
        rows = [look(Proc(), child.pid).blocked[child.pid][0] for _ in range(2000)]
    asleep = [row.wakes_at - NOW for row in rows if row.wakes_at is not None]
    assert len(asleep) > 100
    assert max(map(abs, asleep)) < LATE_S


class RunsOn(Proc):
    """A thread that runs whenever it is looked at."""

    def reread(self, path: str) -> bytes:
        Path(path).write_text(f"1000 10 {next(self.count)}\n")
        return super().reread(path)

    count = itertools.count()


def test_one_that_runs_on_while_it_is_looked_at_is_said_to_run(recorded: Proc) -> None:
    row = look(RunsOn(recorded.root), 4140).blocked[4140][0]
    assert (row.state, row.syscall, row.wakes_at) == ("R", "running", None)
    assert look(recorded, 4140).blocked[4140][0].syscall == "clock_nanosleep"


@pytest.mark.parametrize("text", ["running", "", "-1 0x7ffc 0x7f11"])
def test_one_that_is_in_no_call(recorded: Proc, text: str) -> None:
    Path(recorded.path(4100, "task", 4100, "syscall")).write_text(f"{text}\n")
    row = look(recorded, 4100).blocked[4100][0]
    assert row.syscall == (None if text.startswith("-1") else "running")
    assert row.waits_on == ()


def test_one_that_is_gone(recorded: Proc) -> None:
    shutil.rmtree(recorded.path(4121))
    found = look(recorded, 4100, 4121)
    assert 4121 not in found.blocked
    assert found.unknowns[4121].gone
    assert 4100 in found.blocked


# File locks


def test_who_holds_a_file_lock(recorded: Proc) -> None:
    assert {name: taken.holders for name, taken in file_locks(recorded).items()} == {
        "file:08:01:131": (4140,), "file:00:1a:77": (4100, 4121), "file:08:01:9": (-1,),
    }  # fmt: skip


def test_a_lock_on_a_real_file() -> None:
    with tempfile.TemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        info = os.fstat(file.fileno())
        name = f"file:{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
        proc = Proc()
        link = f"/proc/self/fd/{file.fileno()}"
        assert file_name(os.readlink(link), link) == name
        assert os.getpid() in file_locks(proc)[name].holders


def test_locks_on_the_files_a_process_has_open_are_noted_though_nobody_waits() -> None:
    """Whoever tries again and again for one is in no call that names it."""
    with tempfile.NamedTemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = look(Proc(), os.getpid())
        items = [found.objects[name] for name in found.locked[os.getpid()]]
        noted = [(item.kind, item.path) for item in items if os.getpid() in item.holders]
        assert ("file lock", file.name) in noted
        fcntl.flock(file, fcntl.LOCK_UN)
        assert set(found.locked[os.getpid()]) - set(look(Proc(), os.getpid()).locked[os.getpid()])


def test_the_other_side_of_a_terminal() -> None:
    """A child reads its master side; who has the other side open may print."""
    program = "import os, pty; master, slave = os.openpty(); print('ready', flush=True); os.read(master, 1)"
    with sleeper(program) as child:
        while not (names := look(Proc(), child.pid).blocked[child.pid][0].waits_on):
            pass
        found = look(Proc(), child.pid)
        item = found.objects[names[0]]
        assert (item.kind, f"terminal:{item.path}") == ("pty", item.peer)
        assert item.peer in {row.object for row in found.handles[child.pid]}


def test_who_prints_to_a_full_terminal_waits_for_the_other_side() -> None:
    program = (
        "import os; master, slave = os.openpty(); print('ready', flush=True)\nwhile True: os.write(slave, b'x' * 4096)"
    )
    with sleeper(program) as child:
        while not (names := look(Proc(), child.pid).blocked[child.pid][0].waits_on):
            pass
        found = look(Proc(), child.pid)
        item = found.objects[names[0]]
        assert item.kind == "terminal"
        assert f"pty:{item.id.rpartition('/')[2]}" in {row.object for row in found.handles[child.pid]}


def test_an_eventfd_is_the_same_object_in_all_processes() -> None:
    if not hasattr(os, "eventfd"):
        pytest.skip("Python before 3.10")
    counter = os.eventfd(3)
    try:
        program = f"import os, time; print('ready', flush=True); os.eventfd_read({counter}); os.eventfd_read({counter})"
        with sleeper(program, pass_fds=(counter,)) as child:
            while not (names := look(Proc(), child.pid).blocked[child.pid][0].waits_on):
                pass
            item = look(Proc(), child.pid).objects[names[0]]
            assert (item.kind, item.fill) == ("eventfd", 0)
            assert item.id in {row.object for row in look(Proc(), os.getpid()).handles[os.getpid()]}
    finally:
        os.close(counter)


MUTEX = """
import ctypes, mmap, os, signal
libc = ctypes.CDLL(None)
memory = mmap.mmap(-1, 4096)
mutex = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
kind = ctypes.create_string_buffer(64)
libc.pthread_mutexattr_init(kind)
libc.pthread_mutexattr_setpshared(kind, 1)
libc.pthread_mutex_init(mutex, kind)
owner = os.fork()
if not owner:
    libc.pthread_mutex_lock(mutex)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitid(os.P_PID, owner, os.WEXITED | os.WNOWAIT)
print("ready", flush=True)
libc.pthread_mutex_lock(mutex)
"""


def test_the_owner_of_a_mutex_between_processes() -> None:
    with sleeper(MUTEX) as child:
        (owner,) = Proc().text(child.pid, "task", child.pid, "children").split()
        while not (names := look(Proc(), child.pid).blocked[child.pid][0].waits_on):
            pass
        item = look(Proc(), child.pid).objects[names[0]]
    assert (item.kind, item.owner_tid) == ("semaphore", int(owner))


# Real descriptors of this very process


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_both_ends_of_a_pipe(pipe: tuple[int, int]) -> None:
    found = KernelLook(Proc(), NOW)
    found.look([os.getpid()])
    name = f"pipe:{os.fstat(pipe[0]).st_ino}"
    ends = {row.fd: (row.reads, row.writes) for row in found.handles[os.getpid()] if row.object == name}
    assert ends == {pipe[0]: (True, False), pipe[1]: (False, True)}


def test_a_fifo_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    end = os.open(tmp_path / "fifo", os.O_RDWR)
    try:
        assert file_name(str(tmp_path / "fifo"), f"/proc/self/fd/{end}") == f"pipe:{os.fstat(end).st_ino}"
    finally:
        os.close(end)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("pipe:[7]", "pipe:7"), ("socket:[8]", "socket:8"), ("anon_inode:[eventpoll]", "eventpoll:4100:5"),
        ("anon_inode:inotify", "inotify:4100:5"), ("/dev/null", "device:/dev/null"), ("/gone", "file:/gone"),
    ],
)  # fmt: skip
def test_what_a_descriptor_names(target: str, name: str) -> None:
    assert (object_name(target, 4100, 5) or file_name(target, target)) == name


def test_a_file_whose_name_is_not_text_can_be_written_and_read(recorded: Proc) -> None:
    link = os.fsencode(recorded.path(4100, "fd", 5))
    os.unlink(link)
    os.symlink(b"/data/caf\xe9.bin", link)
    row = calls(recorded, "0 0x5 0x0 0x4 0x0 0x0 0x0")
    item = look(recorded, 4100).objects[row.waits_on[0]]
    assert decode(encode(item), KernelObject) == item
