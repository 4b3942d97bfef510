"""`mpmon doctor --gpu`: what it says, asks and writes, on a machine without a GPU and on one of the stand-ins."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from mpmon import cli
from mpmon.doctor import gpu
from mpmon.doctor.gpu import case as case_module
from mpmon.doctor.gpu import driver, memory
from mpmon.doctor.gpu.case import CONFIRMED, NOT_HERE, WRONG, Case, NotHere, Seen, World, Wrong
from mpmon.doctor.gpu.talking import Program, Silent
from mpmon.errors import CannotTell, MpmonError, UsageError
from mpmon.probes.nvml.wire import Look
from tests.gpu.standins import standins
from tests.nvml import NO_PERMISSION, Scenario
from tests.nvml.fixture import Standin

__all__ = ["standins"]

HOLDS = "mpmon.doctor.gpu.programs.holds"


@pytest.fixture
def machine(standins: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world that the command finds."""
    monkeypatch.setattr(case_module, "World", lambda: standins)
    return standins


def says(answer: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver, whatever this machine has."""
    monkeypatch.setattr(case_module, "look_once", lambda _: answer)


def one_case(run: Callable[[World], Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    """The only one there is, which takes no memory."""
    monkeypatch.setattr(gpu.Confirming.__init__, "__defaults__", ((Case("one", "It is so.", run),),))


def test_without_a_gpu_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    says(Look(problem="no NVIDIA driver here: libnvidia-ml.so.1 was not found", harmless=True), monkeypatch)
    with pytest.raises(CannotTell) as told:
        cli.run(["doctor", "--gpu", "--report", str(tmp_path / "report")])
    assert str(told.value) == ("no NVIDIA driver here: libnvidia-ml.so.1 was not found; nothing can be confirmed here.")
    assert told.value.exit_status == 4
    assert not (tmp_path / "report").exists()


def test_a_library_without_a_gpu_is_no_machine_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    says(Look(driver="580.95.05"), monkeypatch)
    with pytest.raises(CannotTell, match="the driver knows no GPU"):
        cli.run(["doctor", "--gpu"])


def test_a_driver_that_does_not_answer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    says(Look(problem="the NVIDIA driver did not answer within 20 s"), monkeypatch)
    with pytest.raises(MpmonError, match="did not answer within 20 s; nothing can be confirmed") as told:
        cli.run(["doctor", "--gpu"])
    assert told.value.exit_status == 1


@pytest.mark.parametrize("arguments", [["--report", "x"], ["--yes"], ["--gpu", "1"]], ids=" ".join)
def test_options_that_do_not_go_together(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        cli.run(["doctor", *arguments])


def test_memory_is_not_taken_where_nobody_can_be_asked(machine: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--gpu"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("driver 580.95.05, 2 × NVIDIA H100 80GB HBM3\ntorch ")
    assert "confirmed            driver-answers: all queried figures, of 2 GPU(s)\n" in said
    assert " more checks take up to 1536 MiB of the first GPU for some 3 minutes" in said
    assert "There is no terminal to ask on: skipped without --yes." in said
    left_out = "not applicable here  context-is-listed: skipped: it allocates GPU memory, which was not allowed\n"
    assert left_out in said
    assert said.endswith("not applicable here\n")


def test_memory_of_which_nothing_is_known_is_not_called_empty(
    machine: World, nvml: Standin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu.Confirming.__init__, "__defaults__", (memory.CASES,))
    nvml.say(Scenario().lost(0))
    cli.run(["doctor", "--gpu"])
    assert "(how much of its memory is in use is not known)" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "taken"), [("y", True), ("", False), ("no", False)])
def test_a_user_is_asked(
    machine: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, taken: bool
) -> None:
    cases = [case for case in memory.CASES if case.name == "context-is-listed"]
    monkeypatch.setattr(gpu.Confirming.__init__, "__defaults__", (cases,))
    asked: list[str] = []
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
    assert cli.run(["doctor", "--gpu"]) == 0
    (question,) = asked
    assert question.endswith("(0.0 of 79.6 GiB are in use). Continue? [y/N] ")
    assert ("1 confirmed" in capsys.readouterr().out) is taken


def test_the_report_has_no_names_and_no_paths(machine: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu.Confirming.__init__, "__defaults__", ((*driver.CASES, *memory.CASES),))
    file = tmp_path / "report.json"
    assert cli.run(["doctor", "--gpu", "--yes", "--report", str(file)]) == 0
    text = file.read_text()
    report = json.loads(text)
    assert (report["schema"], report["driver"], report["standin"]) == ("mpmon.gpu/1", "580.95.05", True)
    assert report["gpus"] == ["NVIDIA H100 80GB HBM3"] * 2
    assert {row["name"]: row["verdict"] for row in report["results"]} == {
        "driver-answers": CONFIRMED, "figures-as-nvidia-smi": NOT_HERE, "calls-are-cheap": CONFIRMED,
        "context-is-listed": CONFIRMED, "memory-is-counted": CONFIRMED, "imports-are-not-counted": CONFIRMED,
        "a-zombie-holds-nothing": CONFIRMED, "a-forked-child-holds": CONFIRMED, "device-files": NOT_HERE,
    }  # fmt: skip
    for secret in (getpass.getuser(), platform.node(), str(Path.home()), os.getcwd(), "GPU-0000"):
        assert f'"{secret}' not in text
        assert f" {secret}" not in text
    assert not re.search(r'[ "]/\w', text)


def test_nothing_is_overwritten(machine: World, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        cli.run(["doctor", "--gpu", "--report", str(file)])
    assert file.read_text() == "mine"


def test_what_comes_to_nothing_leaves_no_file(machine: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(_: World) -> Seen:
        raise KeyboardInterrupt

    one_case(interrupted, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        cli.run(["doctor", "--gpu", "--report", str(tmp_path / "report")])
    assert list(tmp_path.glob("report*")) == []


def test_what_is_wrong_is_said_and_sets_the_status(
    machine: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(_: World) -> Seen:
        raise Wrong("one", "two", "as /home/ada/job said")

    one_case(wrong, monkeypatch)
    assert cli.run(["doctor", "--gpu", "--report", str(tmp_path / "report")]) == 1
    said = capsys.readouterr().out
    assert "wrong                one: expected one; seen: two\n" in said
    assert "as /home/ada/job said" in said
    assert "ada" not in (tmp_path / "report").read_text()


def test_a_defect_of_a_case_confirms_nothing() -> None:
    def broken(_: World) -> Seen:
        raise KeyError("/home/ada")

    result = Case("one", "It is so.", broken).result(World())
    assert (result.verdict, result.words) == (WRONG, "the case did not finish")
    assert result.detail == "KeyError('/home/ada')"


def test_what_cannot_be_found_out_is_not_wrong() -> None:
    def not_here(_: World) -> Seen:
        raise NotHere("this GPU tells nothing")

    result = Case("one", "It is so.", not_here).result(World())
    assert (result.verdict, result.words) == (NOT_HERE, "this GPU tells nothing")


def test_a_lost_gpu_is_not_confirmed(standins: World, nvml: Standin) -> None:
    nvml.say(Scenario().lost(0))
    result = next(case for case in driver.CASES if case.name == "driver-answers").result(standins)
    assert (result.verdict, result.words) == (WRONG, "expected GPUs without trouble; seen: trouble, or none")
    assert "the GPU is lost" in result.detail


def test_a_program_ends_with_all_it_started(standins: World) -> None:
    with Program(HOLDS) as program:
        program.hear()
        program.order("context")
        child = program.order("fork")["child"]
        assert psutil.pid_exists(child)
    assert not psutil.pid_exists(program.pid)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_a_program_that_fails_says_why(standins: World) -> None:
    with Program(HOLDS) as program:
        program.hear()
        with pytest.raises(Silent, match="ended with status 1: KeyError"):
            program.order("nonsense")


def test_a_driver_that_lists_nobody_confirms_no_context(
    standins: World, nvml: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SOON_S", 0.0)
    nvml.say(Scenario().fails("nvmlDeviceGetComputeRunningProcesses_v3", NO_PERMISSION))
    result = next(case for case in memory.CASES if case.name == "context-is-listed").result(standins)
    assert result.verdict in {WRONG, NOT_HERE}, "the latter in a container"


class CountsImports(World):
    """A driver that counts 100 MiB more of everybody with each look."""

    def __init__(self) -> None:
        super().__init__(computes=False)
        self._looks = 0

    def look(self) -> Look:
        said = super().look()
        self._looks += 1
        more = self._looks * (100 << 20)
        rows = (msgspec.structs.replace(row, memory_bytes=(row.memory_bytes or 0) + more) for row in said.processes)
        return msgspec.structs.replace(said, processes=tuple(rows))


def test_a_driver_that_counts_imports_is_found_out(standins: World) -> None:
    result = next(case for case in memory.CASES if case.name == "imports-are-not-counted").result(CountsImports())
    assert result.verdict == WRONG
    assert result.words == "expected at most 40 MiB more for the importer of 256 MiB; seen: 100 MiB more"
