"""Which processes make up a job, and what their files say."""

from __future__ import annotations

import os
import select
import shutil
import signal
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.model import Thread, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.processes import ProcessTable
from mpmon.probes.processes.member import proportional_size
from mpmon.probes.processes.threads import Threads
from mpmon.probes.stat import Stat, boot_time, facts
from tests.patience import becomes
from tests.probes.tree import BOOTED_AT, TICKS, Tree, TreeProc, stat_line
from tests.sleepers import SLEEP, row, sleeper

LINE = stat_line(4100, name="python (train) 3.11", ppid=77, pgid=4100, sid=77, start=90000, utime=250, threads=2)
NOW = BOOTED_AT + 2000.0


@pytest.fixture
def proc(tree: Tree) -> Iterator[Proc]:
    found = TreeProc(tree.root)
    yield found
    found.close()


def job(proc: Proc, root: int = 4100) -> ProcessTable:
    return ProcessTable(proc, root)


def pids(table: ProcessTable) -> list[int]:
    return [row.pid for row in table.look(NOW)[0]]


# One line of stat


@pytest.mark.parametrize("name", ["python", "a b", "(sd-pam)", "a) S 1 (b", ")", "((", "Ω"])
def test_a_name_may_hold_anything(name: str) -> None:
    found = Stat(stat_line(7, name=name, ppid=3, start=90).encode())
    assert (found.name, found.ppid, found.start_ticks) == (name, 3, 90)


def test_the_fields_of_stat() -> None:
    found = Stat(LINE.encode())
    assert (found.state, found.pgid, found.sid, found.threads) == ("S", 4100, 77, 2)
    assert found.cpu_s == 257 / TICKS
    assert found.child_faults is not None


@given(st.integers(0, len(LINE) - 1))
def test_a_line_that_is_cut_is_refused(length: int) -> None:
    try:
        found = Stat(LINE[:length].encode())
    except (ValueError, IndexError):
        return
    assert found.name == "python (train) 3.11"


@given(st.binary(max_size=80))
def test_any_bytes_are_a_line_or_refused(text: bytes) -> None:
    try:
        Stat(text)
    except (ValueError, IndexError):
        return


@pytest.mark.parametrize("number", range(50))
def test_a_line_says_the_same_when_every_fact_of_it_is_the_same(number: int) -> None:
    head, _, rest = LINE.rpartition(")")
    fields = rest.split()
    fields[number] = "R" if number == 0 else str(int(fields[number]) + 64)
    now = f"{head}) {' '.join(fields)}\n"
    read = [
        [getattr(Stat(line.encode()), name) for name in Stat.__slots__ if name != "exit_code"] for line in (LINE, now)
    ]
    assert (facts(LINE.encode()) == facts(now.encode())) == (read[0] == read[1])


def test_a_line_with_another_name_says_something_else_and_that_of_one_that_has_ended_nothing() -> None:
    assert facts(stat_line(4100, name="a").encode()) != facts(stat_line(4100, name="b").encode())
    assert facts(stat_line(4100, name="a", state="Z").encode()) == ()


# Threads


class Noted(TreeProc):
    """Notes which threads are read again."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree.root)
        self._noted: list[str] = []

    def reread(self, path: str) -> bytes:
        if path.endswith("/schedstat"):
            self._noted.append(path.split("/")[-2])
        return super().reread(path)

    def taken(self) -> list[str]:
        noted, self._noted = self._noted, []
        return noted


def test_the_other_threads_are_read_when_the_main_thread_has_not_run_all_that_the_clock_tells(tree: Tree) -> None:
    tree.add(4100)
    tree.thread(4100, 4101)
    proc = Noted(tree)
    threads = Threads(proc, 4100)
    threads.refresh(2, 2000)
    proc.taken()
    tree.run(4100)
    ran_ns = 2000 + 500_000_000
    assert threads.refresh(2, ran_ns)
    assert proc.taken() == ["4100"]
    assert [row.run_ns for row in threads.rows] == [500_001_000, 1000]
    (tree.root / "4100/task/4101/schedstat").write_text("1700 10 2\n")
    assert threads.refresh(2, ran_ns + 700)
    assert proc.taken() == ["4100", "4101"]
    assert [row.run_ns for row in threads.rows] == [500_001_000, 1700]
    assert not threads.refresh(2, ran_ns + 700)
    assert proc.taken() == ["4100"]
    assert not threads.refresh(2)
    assert proc.taken() == ["4100", "4101"], "nobody could be asked for the clock"
    proc.close()


def test_the_clock_of_a_process_is_the_sum_of_what_its_threads_have_run() -> None:
    program = f"import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start(); {SLEEP}"
    with sleeper(program) as child:
        proc = Proc()

        def adds_up() -> bool:
            (clock,) = proc.clocks([child.pid])
            texts = [proc.read(child.pid, "task", tid, "schedstat") for tid in proc.tids(child.pid)]
            return len(texts) == 2 and clock == sum(int(text.split()[0]) for text in texts)

        assert becomes(adds_up)


# The recorded job


def test_the_job_is_the_root_with_all_below_and_what_belonged_to_it_once(recorded: Proc) -> None:
    assert pids(job(recorded)) == [4100, 4121, 4130, 4140]


def test_a_process_of_the_recorded_job(recorded: Proc) -> None:
    row = job(recorded).look(NOW)[0][0]
    assert row.name == "python (train) 3.11"
    assert row.start_time == BOOTED_AT + 90000 / TICKS
    assert row.cmdline == ("/usr/bin/python3", "train.py", "--name", "two words")
    assert row.exe == "/usr/bin/python3.11"
    assert (row.uid, row.tracer_pid, row.namespace_pid) == (1000, 0, 7)


def test_of_the_environment_only_harmless_names_are_kept(recorded: Proc) -> None:
    row = job(recorded).look(NOW)[0][0]
    assert row.environment == {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "node1=a"}


def test_a_zombie_has_an_exit_status_and_no_threads(recorded: Proc) -> None:
    processes, threads = job(recorded).look(NOW)
    zombie = next(row for row in processes if row.pid == 4130)
    assert zombie.ended
    assert zombie.exit_code == 9
    assert [row.tid for row in threads if row.pid == 4130] == []


def test_the_threads_of_the_recorded_job(recorded: Proc) -> None:
    threads = job(recorded).look(NOW)[1]
    assert threads[1] == Thread(pid=4100, tid=4101, name="pt_autograd_0", run_ns=1_394_500_000, wait_ns=1200, slices=41)


def test_when_the_machine_started(recorded: Proc, tree: Tree) -> None:
    assert boot_time(recorded) == BOOTED_AT
    (tree.root / "stat").write_text("cpu 1\n")
    assert boot_time(Proc(tree.root)) == 0.0


def test_a_process_that_is_not_there(proc: Proc) -> None:
    with pytest.raises(ProcessLookupError):
        job(proc)


# Over time


def test_a_process_that_starts_later_joins(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    table = job(proc)
    assert pids(table) == [4100]
    tree.add(4121, parent=4100)
    tree.add(4122, parent=4121)
    assert pids(table) == [4100, 4121, 4122]


def test_a_process_that_ends_is_kept_as_an_exit(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    tree.add(4121, parent=4100, name="pt_data_worker")
    table = job(proc)
    table.look(NOW)
    tree.end(4121)
    assert pids(table) == [4100]
    assert [(row.pid, row.seen_at, row.process.name) for row in table.exits] == [(4121, NOW, "pt_data_worker")]


def test_a_grandchild_whose_parent_died_stays(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    tree.add(4121, parent=4100)
    tree.add(4122, parent=4121, sid=4122, pgid=4122)
    table = job(proc)
    table.look(NOW)
    tree.end(4121)
    tree.change(4122, ppid=1)
    assert pids(table) == [4100, 4122]


def test_a_daemon_that_left_before_is_taken_in_once_it_is_known_to_have_something_of_the_job(
    tree: Tree, proc: Proc
) -> None:
    tree.add(4100)
    tree.add(4122, parent=1, start=91000, sid=4122, pgid=4122)
    tree.add(4123, parent=4122, start=92000, sid=4122, pgid=4122)
    tree.add(4130, parent=4129, start=92000, sid=4130, pgid=4130)
    tree.add(4129, parent=1, start=100, sid=4130, pgid=4129)
    table = job(proc)
    assert pids(table) == [4100]
    table.recognize(frozenset({4122, 4130, 4129}))
    assert pids(table) == [4100, 4122, 4123], "a program that a living one has started is of that one's job"


def test_a_child_that_changed_its_session_stays(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    tree.add(4121, parent=4100)
    table = job(proc)
    table.look(NOW)
    tree.change(4121, sid=4121, pgid=4121)
    assert pids(table) == [4100, 4121]


def test_a_pid_that_was_given_to_another_process_is_not_of_the_job(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    tree.add(4121, parent=4100, start=2000)
    table = job(proc)
    table.look(NOW)
    tree.change(4121, ppid=1, start=9000, name="sshd", pgid=9, sid=9)
    assert pids(table) == [4100]
    assert [row.pid for row in table.exits] == [4121]
    assert pids(table) == [4100]


def test_a_program_that_was_replaced_by_exec_has_its_new_name_and_command(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    table = job(proc)
    table.look(NOW)
    (tree.root / "4100" / "cmdline").write_bytes(b"ffmpeg\0-i\0a.mp4\0")
    tree.change(4100, name="ffmpeg")
    row = table.look(NOW)[0][0]
    assert (row.name, row.cmdline) == ("ffmpeg", ("ffmpeg", "-i", "a.mp4"))


def test_rows_of_what_did_not_run_are_the_very_same(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    tree.add(4121, parent=4100)
    table = job(proc)
    first, before = table.look(NOW)
    tree.run(4121)
    second, now = table.look(NOW + 1)
    assert second[0] is first[0]
    assert now[0] is before[0]
    assert now[1].slices == before[1].slices + 1


def test_what_a_process_has_read_is_known_when_no_other_fact_of_it_changed(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    io = tree.root / "4100" / "io"
    io.write_bytes(b"rchar: 10\nwchar: 20\n")
    table = job(proc)
    table.look(NOW)
    before = table.look(NOW + 1)[0][0]
    io.write_bytes(b"rchar: 11\nwchar: 20\n")
    tree.run(4100)
    now = table.look(NOW + 2)[0][0]
    assert (now.read_bytes, now.written_bytes) == (11, 20)
    tree.run(4100)
    assert table.look(NOW + 3)[0][0] is now
    assert now.cpu_s == before.cpu_s


def test_a_thread_may_come_and_go(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    table = job(proc)
    table.look(NOW)
    tree.thread(4100, 4105, name="pt_autograd_0")
    tree.change(4100, threads=2)
    assert [row.tid for row in table.look(NOW)[1]] == [4100, 4105]


def test_a_thread_that_ended_keeps_none_of_the_others_from_being_read(tree: Tree, proc: Proc) -> None:
    """Pids have begun anew from the lowest since the process was started, so its threads come before its main thread."""
    tree.add(4100)
    tree.thread(4100, 4050)
    tree.change(4100, threads=2)
    table = job(proc)
    before = {row.tid: row for row in table.look(NOW)[1]}
    shutil.rmtree(tree.root / "4100/task/4050")
    tree.thread(4100, 4051)
    tree.run(4100)
    after = {row.tid: row for row in table.look(NOW)[1]}
    assert after.keys() == {4051, 4100}
    assert after[4100].slices > before[4100].slices


def test_a_thread_gets_its_name_late(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    table = job(proc)
    table.look(NOW)
    (tree.root / "4100/task/4100/comm").write_text("pt_main_thread\n")
    table.refresh_names([4100])
    assert table.look(NOW)[1][0].name == "pt_main_thread"


def test_without_scheduler_statistics_switches_are_counted(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    home = tree.root / "4100/task/4100"
    (home / "schedstat").unlink()
    (home / "stat").write_text(stat_line(4100, utime=250))
    (home / "status").write_text("voluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t3\n")
    row = job(proc).look(NOW)[1][0]
    assert (row.slices, row.run_ns) == (12, int(257 / TICKS * 1e9))


def test_a_file_that_may_not_be_read_is_an_unknown(tree: Tree, proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.add(4100)
    read = Proc.read

    def guarded(self: Proc, *parts: str | int, limit: int = 1 << 16) -> bytes:
        if parts[-1] == "environ":
            raise PermissionError(13, "Permission denied")
        return read(self, *parts, limit=limit)

    monkeypatch.setattr(Proc, "read", guarded)
    table = job(proc)
    assert table.look(NOW)[0][0].environment is None
    assert isinstance(table.unknowns[4100], Unknown)


# What the kernel hides, and where a process may run


class Refusing(TreeProc):
    """Links may not be followed, as those of other users' processes."""

    def link(self, *parts: str | int) -> str:
        raise PermissionError(13, "Permission denied", self.path(*parts))


@pytest.mark.parametrize(
    ("kind", "code", "told"), [(TreeProc, 0, 0), (TreeProc, 9, 9), (Refusing, 0, None), (Refusing, 9, 9)]
)
def test_the_exit_status_of_a_zombie(tree: Tree, kind: type[TreeProc], code: int, told: int | None) -> None:
    """Who may not know it is shown 0, which is not the status then."""
    tree.add(4100)
    tree.add(4121, parent=4100)
    tree.change(4121, state="Z", exit_code=code)
    row = job(kind(tree.root)).look(NOW)[0][1]
    assert (row.state, row.exit_code) == ("Z", told)


@pytest.mark.parametrize(
    ("text", "group"),
    [("4:memory:/user/a:b\n1:name=systemd:/\n0::/x\n", "/user/a:b"), ("2:cpu,memory:/job\n", "/job"),
     ("0::/job.scope\n", "/job.scope"), ("", None)],
)  # fmt: skip
def test_the_memory_group_of_a_process(tree: Tree, proc: Proc, text: str, group: str | None) -> None:
    tree.add(4100)
    (tree.root / "4100/cgroup").write_text(text)
    assert job(proc).look(NOW)[0][0].cgroup == group


def test_version_1_no_longer_knows_the_group_of_a_zombie(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    tree.add(4121, parent=4100, state="Z")
    for pid in (4100, 4121):
        (tree.root / f"{pid}/cgroup").write_text("4:memory:/\n")
    assert [row.cgroup for row in job(proc).look(NOW)[0]] == ["/", None]


def test_how_many_cpus_a_process_may_use(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    (tree.root / "4100/status").write_text("Uid:\t1000\t1000\t1000\t1000\nCpus_allowed:\tff,0000000f\n")
    assert job(proc).look(NOW)[0][0].cpus == 12


def test_where_a_process_works_is_read_again_when_it_is_looked_at(tree: Tree, proc: Proc) -> None:
    tree.add(4100)
    link = tree.root / "4100/cwd"
    link.symlink_to("/home/ada")
    table = job(proc)
    assert table.look(NOW)[0][0].cwd == "/home/ada"
    link.unlink()
    link.symlink_to("/home/ada/cats")
    tree.run(4100)
    assert table.look(NOW)[0][0].cwd == "/home/ada"
    table.refresh_settings([4100])
    assert table.look(NOW)[0][0].cwd == "/home/ada/cats"


def test_the_memory_of_a_process_without_the_shares_of_others(tree: Tree, proc: Proc) -> None:
    rollup = (
        "55e05503e000-7ffcea0fe000 ---p 00000000 00:00 0 [rollup]\nRss:    8192 kB\nPss:    1024 kB\nPss_Anon:  12 kB\n"
    )
    tree.add(4200)
    assert proportional_size(proc, 4200) is None
    (tree.root / "4200/smaps_rollup").write_text(rollup)
    assert proportional_size(proc, 4200) == 1 << 20
    with sleeper() as child:
        assert proportional_size(Proc(), child.pid)


def test_a_user_has_a_name(tree: Tree, proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpmon.probes.processes.table.user_names", lambda: {1000: "ada"})
    tree.add(4100)
    row = job(proc).look(NOW)[0][0]
    assert (row.uid, row.user) == (1000, "ada")


# Who has run, told by the clocks of real processes


@pytest.fixture
def real() -> Iterator[Proc]:
    found = Proc()
    yield found
    found.close()


ANSWERS = "import sys; print('ready', flush=True); [print('ready', flush=True) for line in sys.stdin]"
"""Wakes for each line."""

PARENT = """
import subprocess, sys
middle = subprocess.Popen(
    [sys.executable, "-c", "import subprocess; child = subprocess.Popen(['sleep', '1000']); print(child.pid); child.wait()"],
    stdout=subprocess.PIPE, text=True,
)
print(middle.pid, middle.stdout.readline(), end="", file=sys.stderr, flush=True)
print("ready", flush=True)
sys.stdin.read()
"""


FORKS = """
import os, sys
print("ready", flush=True)
sys.stdin.readline()
child = os.fork()
if child:
    print(child, flush=True)
sys.stdin.read()
"""


def test_only_what_has_run_is_read_again(real: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    with sleeper(ANSWERS) as child:
        table = ProcessTable(real, child.pid)
        processes, threads = table.look(NOW)
        while table.may_have_run:
            processes, threads = table.look(NOW)  # on its way from what it has printed to its read
        read: list[str] = []
        reread = real.reread
        monkeypatch.setattr(real, "reread", lambda path: read.append(path) or reread(path))
        after = table.look(NOW + 1)
        assert (after[0][0], after[1][0], table.may_have_run) == (processes[0], threads[0], [])
        assert read == ["/proc/loadavg"]
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        while table.look(NOW + 2)[1][0].slices == threads[0].slices:
            pass  # it may be on its CPU still
        assert table.may_have_run == [child.pid]


def test_a_child_is_seen_at_once_though_the_machine_is_not_listed_each_round(
    real: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sleeper(FORKS) as root:
        monkeypatch.setattr(real, "census", lambda: b"403 12345\n")
        table = ProcessTable(real, root.pid)
        assert pids(table) == [root.pid]
        assert root.stdin is not None
        assert root.stdout is not None
        root.stdin.write("\n")
        root.stdin.flush()
        child = int(root.stdout.readline())
        assert pids(table) == [root.pid]
        monkeypatch.undo()
        assert pids(table) == [root.pid, child]


def test_a_stop_is_seen_at_once(real: Proc) -> None:
    with sleeper() as child:
        table = ProcessTable(real, child.pid)
        while table.look(NOW)[0][0].state != "S":
            pass  # it may be on its CPU still
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert table.look(NOW + 1)[0][0].state == "T"
        child.send_signal(signal.SIGCONT)
        os.waitpid(child.pid, os.WCONTINUED)
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert table.look(NOW + 2)[0][0].state == "T"


def test_an_end_is_seen_at_once_and_so_is_that_it_was_collected(real: Proc) -> None:
    with sleeper() as child:
        table = ProcessTable(real, child.pid)
        table.look(NOW)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert [(row.state, row.exit_code) for row in table.look(NOW + 1)[0]] == [("Z", signal.SIGKILL)]
        child.wait()
        assert table.look(NOW + 2)[0] == ()
        assert [row.process.exit_code for row in table.exits] == [signal.SIGKILL]


def test_a_child_that_has_not_run_has_its_new_parent_at_once(real: Proc, capfd: pytest.CaptureFixture[str]) -> None:
    with sleeper(PARENT) as root:
        middle, child = map(int, capfd.readouterr().err.split())
        table = ProcessTable(real, root.pid)
        assert {row.pid: row.ppid for row in table.look(NOW)[0]}[child] == middle
        pidfd = os.pidfd_open(middle)
        os.kill(middle, signal.SIGKILL)
        select.select([pidfd], [], [])
        os.close(pidfd)
        found = {row.pid: row for row in table.look(NOW + 1)[0]}
        assert found[middle].state == "Z"
        assert found[child].ppid not in (middle, root.pid)
        os.kill(child, signal.SIGKILL)


def test_where_clocks_do_not_tell_everything_is_read(real: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "clocks", lambda pids: [None] * len(pids))
    with sleeper() as child:
        table = ProcessTable(real, child.pid)
        first = table.look(NOW)
        assert table.look(NOW + 1)[1][0] is first[1][0]
        assert table.may_have_run == [child.pid]


# Mpmon itself


@pytest.mark.parametrize("is_this_one", [True, False], ids=["mpmon", "somebody with its number"])
def test_mpmon_is_no_part_of_a_job(tree: Tree, proc: Proc, *, is_this_one: bool) -> None:
    """In a tree of another pid namespace the number that it has here is that of another process."""
    tree.add(4100)
    tree.add(os.getpid(), parent=4100, pgid=4100)
    (tree.root / "self").symlink_to(str(os.getpid()) if is_this_one else "4711")
    assert (os.getpid() in pids(job(proc))) is not is_this_one


BLOCKS_TERM = "import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}); " + SLEEP


def test_a_process_may_hold_off_the_signal_that_asks_it_to_end() -> None:
    with sleeper(BLOCKS_TERM) as child:
        assert not row(child.pid).holds_off_term
        child.terminate()
        assert row(child.pid).holds_off_term
