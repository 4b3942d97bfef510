"""Which rounds are worth a call, and what it is told; no process is started."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mpmon.alarm.facts import variables
from mpmon.alarm.hangs import CALM_S, LONGEST_CALM_S, Call, Hangs
from mpmon.diagnosis.explanation.brief import LONGEST, brief, job_id, plain
from mpmon.diagnosis.findings import Certainty, Diagnosis, Event, Finding, Observation, Place, Suspect, Verdict
from tests.builders import ROOT, START, process, snapshot
from tests.nodes.recorded import last, recordings

VERDICTS = {"h": Verdict.HUNG, "o": Verdict.HUNG, "s": Verdict.SLOW, "u": Verdict.UNKNOWN, "-": Verdict.HEALTHY}
"""`o` is a hang for which another one is to blame."""


def observation(state: str, at: float, **suspect: object) -> Observation:
    worker = Suspect(pid=4121 if state == "h" else 4122, **{"role": "dataloader worker 0", **suspect})  # type: ignore[arg-type]
    finding = Finding(cause="worker-stuck", certainty=Certainty.LIKELY, summary="it sleeps", suspects=(worker,))
    ended = (Event(at=START + at, kind="job-ended", summary="the job ended"),) if state == "x" else ()
    return Observation(
        snapshot=snapshot(process(), at=at),
        diagnosis=Diagnosis(
            verdict=VERDICTS.get(state, Verdict.HEALTHY), since=START, findings=(finding,) if state in "ho" else ()
        ),
        watched_s=at, events=ended,
    )  # fmt: skip


def told(states: str, step_s: float = 1.0) -> list[str]:
    """The calls for a row of states, `step_s` seconds apart, with the number of the state."""
    hangs = Hangs()
    return [
        f"{call.event} {number}"
        for number, state in enumerate(states)
        for call in hangs.add(observation(state, number * step_s))
    ]


CALM = int(CALM_S)


@pytest.mark.parametrize(
    ("states", "calls"),
    [
        ("--ss--uu", []),
        ("--hhhhhhhh", ["hang 2"]),
        ("hh--hh-hsh" * 20, ["hang 0"]),
        ("h" + "-" * (CALM + 2), ["hang 0", f"end {CALM + 1}"]),
        ("h" + "u" * 100, ["hang 0"]),
        ("hhhx", ["hang 0", "end 3"]),
        ("---x", []),
        ("h" + "o" * (CALM + 2), ["hang 0", f"hang {CALM + 1}"]),
        ("ho" * 100, ["hang 0"]),
        ("h" + "o" * (CALM + 2) + "h" * 200, ["hang 0", f"hang {CALM + 1}"]),
    ],
)
def test_a_hang_is_told_once(states: str, calls: list[str]) -> None:
    assert told(states) == calls


def test_a_hang_that_comes_and_goes_is_told_more_and_more_seldom() -> None:
    """40 s of a hang, 40 s of work, a whole day."""
    calls = told("hhhh----" * 1080, step_s=10.0)
    assert calls == ["hang 0", "end 7", "hang 8"]


def test_after_an_hour_of_work_a_hang_is_told_as_the_first_one_was() -> None:
    calm = "-" * int(LONGEST_CALM_S / 10 + 1)
    one = "h" + calm
    assert [call.split()[0] for call in told(one * 3, step_s=10.0)] == ["hang", "end"] * 3
    assert told(one + "h----", step_s=10.0)[-1] == f"end {len(one) + 4}"


# What a call is told


HOSTILE = "a$(touch /tmp/x)`id`;'\"\n\x1b[31m\0*?{}<>|&\\ü"


def facts(call: Call, seen: Observation) -> dict[str, str]:
    found = variables(call, seen)
    assert all(name.startswith("MPMON_") for name in found)
    return {name.removeprefix("MPMON_"): value for name, value in found.items()}


def test_the_facts_of_a_hang() -> None:
    place = Place(function="Shards.read", file="/home/ada/cats/train.py", line=29)
    seen = observation("h", 8.0, rank=3, frame=place)
    (call,) = Hangs().add(seen)
    assert facts(call, seen) == {
        "EVENT": "hang", "PID": str(ROOT), "JOB_ID": str(ROOT), "HOST": seen.snapshot.host, "CAUSE": "worker-stuck",
        "CERTAINTY": "likely", "SUSPECT": "dataloader worker 0", "SUSPECT_PID": "4121", "RANK": "3",
        "FUNCTION": "Shards.read", "AT": "train.py:29", "SINCE": "2026-01-01T00:00:00Z", "SECONDS": "8",
    }  # fmt: skip


def test_the_end_is_told_with_what_the_hang_was() -> None:
    hangs = Hangs()
    hangs.add(observation("h", 8.0))
    seen = observation("x", 20.0)
    (call,) = hangs.add(seen)
    found = facts(call, seen)
    assert (found["EVENT"], found["CAUSE"], found["SUSPECT_PID"], found["SECONDS"]) == (
        "end", "worker-stuck", "4121", "20",
    )  # fmt: skip


def test_without_a_finding_all_names_are_there() -> None:
    seen = Observation(snapshot=snapshot(process()), diagnosis=Diagnosis(verdict=Verdict.HUNG), watched_s=0.0)
    (call,) = Hangs().add(seen)
    assert (facts(call, seen)["CAUSE"], facts(call, seen)["SINCE"]) == ("", "")


def test_words_of_the_job_mean_nothing_to_a_shell() -> None:
    place = Place(function=HOSTILE, file=f"/home/{HOSTILE}", line=7)
    seen = observation("h", 8.0, role=HOSTILE, frame=place, host=HOSTILE)
    (call,) = Hangs().add(seen)
    for name, value in facts(call, seen).items():
        assert set(value) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@/+- "), name
        assert len(value) <= LONGEST, name


@pytest.mark.parametrize(
    ("word", "left"),
    [("-rf", "rf"), (" - -x ", "x"), ("train.py:29", "train.py:29"), ("<module>", "_module_"), ("x" * 5000, "x" * LONGEST)],
)  # fmt: skip
def test_a_word(word: str, left: str) -> None:
    assert plain(word) == left


def names(variables_of: Iterable[dict[str, str] | None]) -> str:
    rows = [process(ROOT + number, environment=known) for number, known in enumerate(variables_of)]
    return job_id(snapshot(*rows))


def test_a_job_has_the_name_that_its_launcher_gave_it() -> None:
    assert names([None, {}]) == str(ROOT)
    assert names([{}, {"TORCHELASTIC_RUN_ID": "none"}]) == str(ROOT)
    assert names([{"TORCHELASTIC_RUN_ID": "cats"}, {"SLURM_JOB_ID": "7"}]) == "7"


def test_of_several_machines_the_one_of_the_suspect_is_named() -> None:
    found = brief(last(*recordings("worker")))
    assert (found.host, found.pid, found.rank, found.role) == ("h2", "19", "3", "dataloader worker 0 of rank 3")
