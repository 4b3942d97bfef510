"""Remarks that only a job on many machines can have: who does not answer, who has another mpmon, who may read less."""

from __future__ import annotations

import pytest

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.remarks import node_rights, node_unreachable, node_version
from mpmon.diagnosis.state.job_state import JobState
from mpmon.nodes.join import Part, join
from tests.builders import START, history, process, snapshot, thread

YAMA = "Yama lets only ancestors read a process (ptrace_scope is 1): run mpmon as root"


def part(host: str, *, version: str = "1.0", rights: str | None = "") -> Part:
    facts = snapshot(process(), thread())
    return Part(host=host, snapshot=facts, version=version, rights=rights, state="fresh", heard_at=START)


def silent(host: str, problem: str = "is cut off; ranks 6-7 run there", state: str = "unreachable") -> Part:
    return Part(host=host, problem=problem, state=state, heard_at=START - 12.0)


def remarked(*parts: Part) -> list[Remark]:
    now = join(parts)
    job = JobState(history(now), now)
    return [row for topic in (node_unreachable, node_version, node_rights) for row in topic.remarks(job)]


def test_a_machine_that_does_not_answer_is_told_with_its_ranks() -> None:
    (remark,) = remarked(part("n1"), part("n2"), silent("n3"))

    assert remark.topic == "node-unreachable"
    assert remark.summary == "1 of 3 machines does not answer: n3"
    assert remark.evidence == ("n3 is cut off; ranks 6-7 run there (last heard from 12 s ago)",)
    assert remark.since == START - 12.0


def test_of_many_that_do_not_answer_the_first_are_told() -> None:
    (remark,) = remarked(part("n0"), *(silent(f"n{number}") for number in range(1, 21)))
    assert remark.summary == "20 of 21 machines do not answer: n1, n10, n11 and 17 more"
    assert (len(remark.evidence), remark.evidence[-1]) == (node_unreachable.MOST + 1, "and 12 more")


def test_machines_with_another_mpmon_are_told() -> None:
    (remark,) = remarked(part("n1"), part("n2"), part("n3", version="0.9"))
    assert remark.topic == "version-mismatch"
    assert remark.summary == "machines have 2 versions of mpmon: 1.0 on n1 and n2, 0.9 on n3"


def test_a_machine_on_which_less_may_be_read_is_told() -> None:
    (remark,) = remarked(part("n1"), part("n2", rights=YAMA))
    assert remark.topic == "rights-differ"
    assert remark.summary == "mpmon lacks the rights to read the job on n2, which it has on other machines"
    assert remark.evidence == (f"n2: {YAMA}",)


@pytest.mark.parametrize(
    "parts",
    [
        (part("n1"), part("n2")),
        (part("n1"), silent("n2", "no process of the job runs there", "no job")),
        (part("n1", rights=YAMA), part("n2", rights=YAMA)),
        (part("n1"), part("n2", rights=None)),
    ],
    ids=["all well", "a machine without the job", "the same everywhere", "not known yet"],
)
def test_nothing_is_remarked(parts: tuple[Part, ...]) -> None:
    assert remarked(*parts) == []
