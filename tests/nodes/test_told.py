"""A job on several machines is told by host, rank and the pid there; the numbers of the joined tables are shown to nobody."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Finding, Observation, Suspect, Verdict
from mpmon.diagnosis.gpus import ordinals
from mpmon.diagnosis.hosts import Hosts, told
from mpmon.model import PIDS_OF_A_HOST
from mpmon.nodes.join import Part, join
from mpmon.reports import document, notice, plain, text
from mpmon.session.watch import ReplayWatch
from tests.builders import ROOT, gpu, on_gpu, process, snapshot, thread
from tests.nodes.recorded import CASES, last, recordings
from tests.tui.screens import play, settle, shows


def numbers(said: str) -> list[int]:
    """Those that no machine gives to a process, and that may be one's in the joined tables."""
    said = "\n".join(line for line in said.splitlines() if '"offset":' not in line)
    found = map(int, re.findall(r"(?<![\w.@:-])\d{8,9}(?![\w.@])", said))
    return [number for number in found if PIDS_OF_A_HOST < number < 4 * PIDS_OF_A_HOST]


def everything(observation: Observation) -> str:
    lines = (*plain.lines(observation), *notice.lines(observation))
    return "\n".join([text.render(observation), document.render_pretty(observation), *lines])


@pytest.mark.parametrize("case", CASES)
def test_no_report_shows_a_number_that_no_machine_has(case: str) -> None:
    for observation in ReplayWatch(*recordings(case), at_once=True):
        assert numbers(everything(observation)) == []


def test_a_suspect_is_found_by_rank_machine_and_pid() -> None:
    said = text.render(last(*recordings("worker")))
    first, summary, *_ = said.splitlines()
    assert re.fullmatch(r"HUNG for \d+ s \(since \S+\): job on h1, h2, h3, 18 processes", first)
    assert summary.startswith(
        "  dataloader worker 0 of rank 3 (pid 19 on h2) has been blocked in open() of a named pipe for"
    )
    assert "└─ rank 3 (pid 12 on h2): next batch" in said
    assert "    h1      11 S    rank 0 " in said
    assert "  ▶ h2      19 S      dataloader worker 0 " in said


def test_a_command_is_for_the_machine_that_is_named_behind_it() -> None:
    said = text.render(last(*recordings("stop")))
    assert "- Then continue it: kill -CONT 12 (on h2)" in said
    assert "- /proc/12/stat: state T (on h2)" in said


def test_a_script_finds_host_and_pid_in_each_row() -> None:
    said = json.loads(document.render(last(*recordings("worker"))))
    (finding,) = said["findings"]
    assert [(row["pid"], row["host"], row["rank"]) for row in finding["suspects"]] == [(19, "h2", 3)]
    assert {(row["pid"], row["host"]) for row in finding["waiters"]} >= {(11, "h1"), (12, "h1"), (11, "h2")}
    assert {(row["pid"], row["host"]) for row in finding["chain"]} >= {(12, "h2"), (19, "h2")}
    rows = {(row["host"], row["pid"]): row for row in said["processes"]}
    assert len(rows) == len(said["processes"])
    assert rows["h2", 19]["ppid"] == 12
    assert [node["host"] for node in said["nodes"]] == ["h1", "h2", "h3"]


def test_of_one_machine_no_row_names_a_host() -> None:
    said = json.loads(document.render(last(recordings("worker")[1])))
    assert {row["host"] for row in said["processes"]} == {None}
    assert said["nodes"] == []


def test_only_numbers_of_processes_are_taken_for_such() -> None:
    rows = process(), thread(tid=7)
    hosts = Hosts(join([Part(host="a", snapshot=snapshot(*rows)), Part(host="b", snapshot=snapshot(*rows))]))
    first, second = PIDS_OF_A_HOST + ROOT, 2 * PIDS_OF_A_HOST + ROOT
    assert hosts.text(f"pid {first}, {second} and {first + 1}") == f"pid {ROOT} on a, {ROOT} on b and {first + 1}"
    assert (
        hosts.text(f"rank 0 and rank 1 (pids {first}-{first + 1}) ended")
        == f"rank 0 and rank 1 (pids {ROOT}-{ROOT + 1} on a) ended"
    )
    assert hosts.text(f"/proc/{first}-{first + 1}") == f"/proc/{ROOT}-{ROOT + 1} (on a)"
    assert hosts.text(f"pids {first}-{second}") == f"pids {first}-{second}"
    assert hosts.text(f"gdb -p {second}.") == f"gdb -p {ROOT} (on b)."
    assert hosts.text(f"thread {PIDS_OF_A_HOST + 7} of x") == "thread 7 of x (on a)"
    assert hosts.text(f"0.{first} x{first} {first}ms") == f"0.{first} x{first} {first}ms"
    assert not Hosts(snapshot(*rows))
    assert Hosts(snapshot(*rows)).text(f"pid {first}") == f"pid {first}"


def test_the_screen_has_a_column_of_hosts_and_opens_their_processes() -> None:
    watch = ReplayWatch(*recordings("worker"))

    async def script(pilot: object) -> None:
        await settle(pilot, lambda: shows(pilot, "HUNG", "host", "of rank 3 (pid 19 on h2)", "(19 on h2)"))
        await pilot.press("enter")  # type: ignore[attr-defined]
        await settle(pilot, lambda: shows(pilot, "on h"))

    watch.speed = 1e9
    play(watch, script)


def test_joined_rounds_are_recorded_like_any_others(tmp_path: Path) -> None:
    """A recording of joined rounds is one like any other."""
    from mpmon.session.recording import Recorder

    path = tmp_path / "whole.jsonl.gz"
    with Recorder(path) as recorder:
        for observation in ReplayWatch(*recordings("worker"), at_once=True):
            recorder.write(observation.snapshot)
    assert text.render(last(path)) == text.render(last(*recordings("worker")))


def test_a_process_counts_the_gpus_of_its_own_machine() -> None:
    rows = process(environment={}), thread(), gpu(0), on_gpu(ROOT, 0)
    whole = join([Part(host="a", snapshot=snapshot(*rows)), Part(host="b", snapshot=snapshot(
        process(environment={}), thread(), gpu(0, uuid="GPU-7"), on_gpu(ROOT, 7),
    ))])  # fmt: skip
    assert {number.number for number in ordinals(whole).values()} == {0}


def test_a_role_may_have_anything_in_its_name() -> None:
    suspect = Suspect(pid=PIDS_OF_A_HOST + ROOT, role=r"subprocess a\1", tid=PIDS_OF_A_HOST + ROOT)
    finding = Finding(
        cause="straggler", certainty=Certainty.LIKELY, summary=rf"{suspect.role} sleeps", suspects=(suspect,)
    )
    whole = join([Part(host="a", snapshot=snapshot(process())), Part(host="b", snapshot=snapshot(process()))])
    (said,) = told(Diagnosis(verdict=Verdict.HUNG, findings=(finding,)), whole).findings
    assert said.summary == rf"{suspect.role} (pid {ROOT} on a) sleeps"
