"""Threads that run, in one moment: by perf, where it is allowed here."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Observation
from mpmon.diagnosis.stacks.merging import merged_thread
from mpmon.model import NativeStack
from mpmon.probes.aside import Aside
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.reader import StackReader
from mpmon.probes.maps import layout
from mpmon.probes.memory import Memory
from mpmon.probes.native import look, native_samples, samples
from mpmon.probes.native.climb import Climber
from mpmon.probes.native.effort import Effort
from mpmon.probes.native.machines import X86_64
from mpmon.probes.native.outcomes import RUNNING, SAMPLE, START
from mpmon.probes.native.samples import NEVER_IN_USER_CODE, NotSampled, Sample, check_sampling
from mpmon.probes.native.space import Space
from mpmon.probes.rights import why_unsampled
from tests.live.running import watch
from tests.probes.native.looks import functions, only_x86_64, python, truth

SOURCE = Path(__file__).with_name("spins.c")
SPINS = """
import ctypes, sys
function = getattr(ctypes.PyDLL(sys.argv[1]), sys.argv[2])
def spin():
    function()
print("ready", flush=True)
spin()
"""
STARVES = (
    """
import threading, time
def tick():
    while True:
        time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()
"""
    + SPINS
)
LOOP = """
def spin():
    while True:
        pass
print("ready", flush=True)
spin()
"""
REGEX = """
import re
def spin():
    re.match("(a+)+b", "a" * 64)
print("ready", flush=True)
spin()
"""
SLEEP = "import time; print('ready', flush=True); time.sleep(1e6)"

ENOUGH = 600
"""Samples are asked for so often at most, on a machine that gives the thread no time."""


@pytest.fixture
def perf() -> None:
    """Skips where nothing can be sampled."""
    try:
        check_sampling()
    except NotSampled as problem:
        pytest.skip(f"running threads cannot be sampled here: {problem.why}")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of ways to spin."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc to build a library with")
    made = tmp_path_factory.mktemp("spins") / "libspins.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-w", str(SOURCE), "-o", str(made)], check=True)
    return str(made)


def sample(pid: int, function: str, proc: Proc | None = None) -> NativeStack:
    """A moment of the main thread, once it is in that function: who said that it is about to spin may not yet."""
    rows: tuple[NativeStack, ...] = ()
    for _ in range(ENOUGH):
        rows = native_samples(proc or Proc(), pid, [pid], 1.0)
        if function in functions(rows[0]):
            return rows[0]
    if any(frame.function is None and frame.library == os.path.realpath(sys.executable) for frame in rows[0].frames):
        pytest.skip("this Python has no names of its inner functions")
    raise AssertionError(rows)


def places(pid: int, moment: Sample) -> list[tuple[int, int]]:
    """Program counter and stack pointer of each caller of where it stood."""
    proc = Proc()
    with Memory(proc, pid) as memory, Space(proc, pid, memory, layout(proc, pid), X86_64) as space:
        climb = Climber(space, Effort()).climb_sample(moment)
    return [(step.program_counter, step.stack_pointer) for step in climb.steps[1:]]


CHAINS = {
    "wait_for_flag": ["poll_flag", "wait_for_flag"],
    "sort_for_good": ["compare", "sort_for_good"],
    "from_the_deep": ["poll_flag", "deep", "from_the_deep"],
}
"""The functions of the library that each way to spin is in; one that calls itself stands there once."""


@only_x86_64
@pytest.mark.live
@pytest.mark.usefixtures("perf")
@pytest.mark.parametrize("spin", CHAINS)
def test_a_loop_in_c_is_named_and_all_who_called_it(library: str, spin: str) -> None:
    with python(SPINS, library, spin) as pid:
        row = sample(pid, spin)
        (stack,) = StackReader(Proc(), pid).read(1.0).stacks
    assert (row.end, row.why, row.frames[0].how) == (START, None, SAMPLE)
    assert [name for name, _ in groupby(functions(row, "libspins"))] == CHAINS[spin]
    assert row.is_sample
    assert functions(row)[-1] == "_start"
    thread = merged_thread(row, stack)
    assert thread.agrees
    names = [getattr(frame, "name", None) or getattr(frame, "function", None) for frame in thread.told]
    assert names[-2:] == ["spin", "<module>"]
    assert names[0] == CHAINS[spin][0]


@only_x86_64
@pytest.mark.live
@pytest.mark.usefixtures("perf")
@pytest.mark.parametrize(
    ("program", "function", "inner"),
    [
        (LOOP, "_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault"),
        (REGEX, "_sre_SRE_Pattern_match", "sre_ucs1_match"),
    ],
    ids=["loop", "regex"],
)
def test_python_that_runs_is_followed_to_its_start(program: str, function: str, inner: str) -> None:
    with python(program) as pid:
        row = sample(pid, function)
        (stack,) = StackReader(Proc(), pid).read(1.0).stacks
    if not stack.owns_gil:
        pytest.skip("the GIL is not told here")
    assert (row.end, row.frames[0].how) == (START, SAMPLE)
    assert inner in functions(row)
    assert merged_thread(row, stack).agrees


@only_x86_64
@pytest.mark.live
@pytest.mark.usefixtures("perf")
def test_all_callers_of_a_loop_are_those_that_gdb_finds(library: str) -> None:
    """The loop calls nobody, so that all frames but for the place in the innermost one stay."""
    with python(SPINS, library, "from_the_deep") as pid:
        sample(pid, "from_the_deep")
        moments = next(found for _ in range(ENOUGH) if (found := samples.samples(pid, [pid])[pid]))
        climbed = {tuple(places(pid, moment)) for moment in moments}
        said = truth(pid)[pid]
    assert climbed == {tuple(said[1:])}


@only_x86_64
@pytest.mark.live
@pytest.mark.usefixtures("perf")
def test_a_sample_is_taken_by_the_helper(library: str) -> None:
    aside = Aside()
    try:
        with python(SPINS, library, "wait_for_flag") as pid:
            row = sample(pid, "poll_flag", Proc(aside=aside))
    finally:
        aside.close()
    assert row.end == START


@only_x86_64
@pytest.mark.live
@pytest.mark.usefixtures("perf")
def test_a_thread_that_sleeps_meanwhile_has_no_sample() -> None:
    with python(SLEEP) as pid:
        assert samples.samples(pid, [pid], wait_s=0.0) == {pid: []}
        rows = [native_samples(Proc(), pid, [pid], 1.0)[0] for _ in range(2)]
    assert (rows[-1].frames, rows[-1].end, rows[-1].why) == ((), RUNNING, NEVER_IN_USER_CODE)


@pytest.mark.live
@pytest.mark.usefixtures("perf")
def test_a_thread_that_is_gone_has_none() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert samples.samples(child.pid, [child.pid]) == {}


@only_x86_64
@pytest.mark.live
@pytest.mark.usefixtures("perf")
def test_a_finding_names_the_loop_in_c_in_which_a_thread_spins(library: str) -> None:
    def is_told(seen: Observation) -> bool:
        return bool(seen.diagnosis.findings) and any(row.is_sample for row in seen.snapshot.native_stacks)

    with python(STARVES, library, "wait_for_flag") as pid:
        finding = watch(pid, enough=is_told).diagnosis.findings[0]
    assert any("running; when sampled, it was in wait_for_flag of libspins.so" in line for line in finding.evidence)


# Refused


def refused(number: int) -> OSError:
    """A kernel's answer."""
    return OSError(number, os.strerror(number))


def made_proc(folder: Path, *, paranoid: str = "", capabilities: int = 0, seccomp: int = 0) -> Path:
    """A /proc of somebody with these rights."""
    (folder / "self").mkdir()
    (folder / "self/status").write_text(f"CapEff:\t{capabilities:016x}\nSeccomp:\t{seccomp}\n", encoding="ascii")
    (folder / "sys/kernel").mkdir(parents=True)
    (folder / "sys/kernel/perf_event_paranoid").write_text(paranoid, encoding="ascii")
    return folder


def test_an_administrator_who_forbids_it_is_named(tmp_path: Path) -> None:
    assert why_unsampled(refused(errno.EACCES), made_proc(tmp_path, paranoid="4\n")) == (
        "perf_event_paranoid is 4 and mpmon has no CAP_PERFMON (EACCES)",
        "run mpmon as root, or: sudo sysctl kernel.perf_event_paranoid=2",
    )


@pytest.mark.parametrize(("paranoid", "capability"), [("2\n", 0), ("4\n", 1 << 38), ("4\n", 1 << 21), ("", 0)])
def test_a_process_of_another_user_is_told_apart(tmp_path: Path, paranoid: str, capability: int) -> None:
    proc = made_proc(tmp_path, paranoid=paranoid, capabilities=capability)
    why, remedy = why_unsampled(refused(errno.EACCES), proc)
    assert "of another user" in why
    assert "as root" in remedy


@pytest.mark.parametrize(("seccomp", "words"), [(2, "seccomp"), (0, "the kernel forbids")])
def test_the_filter_of_a_container_is_told_apart_from_the_kernel(tmp_path: Path, seccomp: int, words: str) -> None:
    why, remedy = why_unsampled(refused(errno.EPERM), made_proc(tmp_path, seccomp=seccomp))
    assert words in why
    assert ("--cap-add PERFMON" in remedy) == bool(seccomp)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSYS, "there is no perf_event_open"),
        (errno.ENOENT, "no clock that samples (ENOENT)"),
        (errno.EMFILE, "perf_event_open: too many open files"),
    ],
)
def test_what_the_kernel_lacks_is_said(tmp_path: Path, number: int, words: str) -> None:
    assert words in why_unsampled(refused(number), made_proc(tmp_path))[0]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOSYS])
def test_a_refusal_is_no_failure(number: int) -> None:
    def call(_attributes: bytes, _tid: int) -> int:
        raise refused(number)

    with pytest.raises(NotSampled) as raised:
        samples.samples(1, [1], call=call)
    assert errno.errorcode[number] in raised.value.why


FILTERED = """
import ctypes, struct, sys
from mpmon.probes.native.samples import NotSampled, check_sampling
instructions = (0x20, 0, 0, 0), (0x15, 0, 1, 298), (0x06, 0, 0, 0x50000 | int(sys.argv[1])), (0x06, 0, 0, 0x7FFF0000)
text = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *row) for row in instructions))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program, libc = Program(4, ctypes.addressof(text)), ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit("no filter")
try:
    check_sampling()
except NotSampled as problem:
    print(problem.why)
"""
"""Refuses perf_event_open to itself by seccomp(2): PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with four instructions."""


@only_x86_64
@pytest.mark.live
@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EPERM, "the system call filter (seccomp)"), (errno.ENOSYS, "there is no perf_event_open")],
)
def test_a_real_filter_is_named(number: int, words: str) -> None:
    said = subprocess.run([sys.executable, "-c", FILTERED, str(number)], capture_output=True, text=True, check=False)
    if "no filter" in said.stderr:
        pytest.skip("this kernel lets nobody filter system calls")
    assert said.stdout.startswith(words), said.stderr


@only_x86_64
@pytest.mark.live
def test_where_perf_is_refused_a_running_thread_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotSampled("perf_event_paranoid is 4")

    monkeypatch.setattr(look, "samples", refuse)
    with python(SLEEP) as pid:
        (row,) = native_samples(Proc(), pid, [pid], 1.0)
    assert (row.frames, row.end, row.why) == ((), RUNNING, "perf_event_paranoid is 4")
