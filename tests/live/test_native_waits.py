"""Waits in C for other threads of the process: real libraries whose helpers stand still, and beside each the same that work."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Finding, Verdict
from tests.live.running import PROGRAMS, Program, watch
from tests.probes.native.looks import only_x86_64

pytestmark = [pytest.mark.live, only_x86_64]

PASSIVE = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "4"}
"""Who waits in OpenMP sleeps at once."""

CALM_S = 9.0
"""Longer than it takes to call something hung."""


def built(source: str, folder: Path) -> str:
    """A library."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = folder / f"lib{Path(source).stem}.so"
    command = [compiler, "-O2", "-fPIC", "-shared", "-fopenmp", "-pthread", str(PROGRAMS / source), "-o", str(made)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("the C compiler has no OpenMP")
    return str(made)


def hung(program: Program) -> Finding:
    """What is found once the frames of two threads were read: on a loaded machine that may take a second round."""
    seen = watch(
        program.pid, enough=lambda seen: bool(seen.diagnosis.findings) and len(seen.snapshot.native_stacks) > 1
    )
    assert seen.diagnosis.verdict is Verdict.HUNG, seen.diagnosis.because
    return seen.diagnosis.findings[0]


HELPERS = {
    "decoder_close": ("decode_frames", "the end of the native thread "),
    "resize": ("resize._omp_fn.0", "of OpenMP"),
    "read_index": ("index_files", "a native mutex, in read_index of libhelpers.so"),
}
"""Functions of `helpers.c`: what the thread runs that they wait for, and what the wait is called."""


@pytest.mark.parametrize("function", HELPERS)
def test_a_native_thread_that_stands_still_is_whom_its_library_waits_for(function: str, tmp_path: Path) -> None:
    runs, words = HELPERS[function]
    arguments = built("helpers.c", tmp_path), function, "0"
    with Program("helpers.py", *arguments, environment=PASSIVE).hear("ready") as program:
        finding = hung(program)
        assert finding.cause == "native-hang"
        (suspect,) = finding.suspects
        assert suspect.pid == program.pid
        assert suspect.tid not in (None, program.pid)
        assert suspect.frame is not None
        assert suspect.frame.line == program.line(), "the line from which the library was called"
        assert f"waits in {function} of libhelpers.so" in finding.summary
        assert f"has waited in {runs} of libhelpers.so for a sem_post by another thread" in finding.summary
        assert words in finding.summary
        assert [link.thread for link in finding.chain[:2]] == [None, f"thread {suspect.tid}"]


@pytest.mark.parametrize("function", HELPERS)
def test_a_native_thread_that_works_is_waited_for(function: str, tmp_path: Path) -> None:
    arguments = built("helpers.c", tmp_path), function, "1"
    with Program("helpers.py", *arguments, environment=PASSIVE).hear("ready") as program:
        seen = watch(program.pid, seconds=CALM_S)
        assert seen.diagnosis.verdict is not Verdict.HUNG, seen.diagnosis.because


def test_the_lock_of_the_loader_leads_to_the_thread_that_loads(tmp_path: Path) -> None:
    arguments = built("loads_for_ever.c", tmp_path), built("helpers.c", tmp_path)
    with Program("loader_lock.py", *arguments).hear("ready") as program:
        finding = hung(program)
        assert finding.cause == "native-hang"
        assert [row.thread for row in finding.suspects] == ["plugins"]
        assert "thread plugins of main has waited in dlopen" in finding.summary
        assert "main waits for a native mutex, in dlopen" in finding.summary


def test_a_library_that_does_not_let_the_program_exit(tmp_path: Path) -> None:
    with Program("ends.py", built("ends_in_library.c", tmp_path)).hear("ready") as program:
        finding = hung(program)
        assert finding.cause == "exit-hang"
        assert "logger_shutdown of libends_in_library.so waits for it" in finding.summary
        assert any("flush_loop of libends_in_library.so" in line for line in finding.evidence)


def test_a_wait_in_c_with_the_gil_starves_the_others() -> None:
    with Program("keeps_gil.py").hear("ready") as program:
        finding = hung(program)
        assert finding.cause == "gil-held"
        assert any("sem_wait of libc.so.6 waits for a sem_post by another thread" in line for line in finding.evidence)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("works", ["0", "1"])
def test_a_backward_pass_in_a_thread_of_autograds(works: str) -> None:
    with Program("deep_backward.py", works).hear("ready") as program:
        if works == "1":
            seen = watch(program.pid, seconds=CALM_S)
            assert seen.diagnosis.verdict is not Verdict.HUNG, seen.diagnosis.because
            return
        finding = hung(program)
        helper = program.pids["helper"]
        assert helper in {row.tid for row in finding.suspects}
        assert [link.thread for link in finding.chain[:2]] == [None, f"thread {helper}"]
        told = f"all threads of autograd in pid {program.pid} wait except thread {helper}"
        assert any(told in line for line in finding.evidence)
