"""The files that tell what was confirmed, the manual's entries of them, and what is recorded of a driver."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mpmon.diagnosis.remarks import TOPICS
from mpmon.doctor.gpu.case import CONFIRMED, NOT_HERE, WRONG, Result, World
from mpmon.doctor.gpu.report import Report, decode, encode, report
from mpmon.probes.nvml.wire import Look
from tests.gpu import confirmed, record, remarks
from tests.gpu.cases import CASES
from tests.gpu.standins import standins
from tests.gpu.table import merged
from tests.nvml import NOT_SUPPORTED, Scenario
from tests.nvml.fixture import Standin

__all__ = ["standins"]


def made(*results: Result, day: str = "2026-11-22", standin: bool = False) -> Report:
    found = report(Look(driver="580.95.05"), "2.13.0+cu130", results, standin=standin)
    return msgspec.structs.replace(found, gpus=("NVIDIA H100",) * 2, day=day, kernel="6.8")


def result(name: str, verdict: str) -> Result:
    return Result(name, "It is so.", verdict, "so it was", {"mib": 1.0}, 0.1)  # type: ignore[arg-type]


def test_a_file_says_what_was_written() -> None:
    report = made(result("one", CONFIRMED), result("two", WRONG))
    assert decode(encode(report)) == report


def test_without_files_nothing_is_confirmed(tmp_path: Path) -> None:
    assert confirmed.entries(tmp_path) == [confirmed.NOTHING]


def test_a_file_has_an_entry(tmp_path: Path) -> None:
    one = made(result("one", CONFIRMED), result("two", CONFIRMED), result("three", WRONG), result("four", NOT_HERE))
    (tmp_path / "a.json").write_bytes(encode(one))
    (tmp_path / "b.json").write_bytes(encode(made(result("one", CONFIRMED), day="2026-11-01")))
    (tmp_path / "c.json").write_bytes(encode(made(result("one", CONFIRMED), standin=True)))
    where = "- On a GPU (NVIDIA H100, driver 580.95.05, torch 2.13.0+cu130, Linux 6.8, 2026-11"
    assert confirmed.entries(tmp_path) == [
        f"{where}-01): confirmed: one.",
        f"{where}-22): confirmed: one, two; wrong: three; not applicable here: four.",
    ]


def test_a_run_is_one_file() -> None:
    assert [row.name for row in merged([made(result("one", CONFIRMED)), made(result("two", WRONG))]).results] == [
        "one",
        "two",
    ]


def test_every_case_has_a_name_and_a_sentence_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len({case.confirms for case in CASES}) == len(CASES)
    assert all(case.confirms.endswith(".") for case in CASES)


def test_every_remark_about_gpus_is_made_once_or_said_not_to_be() -> None:
    topics = {topic.TOPIC for topic in TOPICS if topic.TOPIC.startswith(("gpu-", "ipc-"))}
    names = {case.name for case in CASES}
    assert remarks.ELSEWHERE.keys() | remarks.UNTRIED.keys() | {case.name for case in remarks.CASES} == topics
    assert set(remarks.ELSEWHERE.values()) <= names
    assert remarks.UNTRIED.keys().isdisjoint(names)


def test_what_is_recorded_is_said_again(standins: World, nvml: Standin) -> None:
    scenario = Scenario(driver="570.1", power=612_000, clock_reasons=0x44, recovery=1, compute_mode=3, name="H100")
    nvml.say(scenario.fails("nvmlDeviceGetTotalEccErrors", NOT_SUPPORTED))
    before = record.look()
    nvml.say(Scenario())
    nvml.say(record.scenario_of(before))
    (one,), (other,) = before.gpus, record.look().gpus
    assert msgspec.structs.replace(other, read_at=one.read_at, uuid=one.uuid) == one


def test_a_recording_has_what_a_context_takes(
    standins: World, nvml: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nvml.say(Scenario(context=300 << 20))
    monkeypatch.setattr(record, "World", lambda: standins)
    record.main(str(tmp_path / "recorded"))
    assert f"gpu 0 context {300 << 20}\n" in (tmp_path / "recorded").read_text()
    assert "a context takes 314572800 bytes" in capsys.readouterr().out
