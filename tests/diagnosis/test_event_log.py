"""What is told of what happens, line by line."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis import EventLog
from mpmon.diagnosis.event_log import LASTS_S, LONGEST, lives
from mpmon.diagnosis.findings import (
    Bottleneck,
    Certainty,
    Diagnosis,
    Event,
    Finding,
    ProcessView,
    Remark,
    Suspect,
    Verdict,
)
from mpmon.model import NOT_PYTHON, Cgroup, Exit, Gpu, KnownChild, ProbeReport, Process, Snapshot, Unknown, Xid
from tests.builders import ROOT, START, process, snapshot, view

QUIET = Diagnosis(verdict=Verdict.UNKNOWN)


def rank(number: int, pid: int, **more: object) -> tuple[Process, ProcessView]:
    return process(pid, parent=ROOT, **more), view(pid, f"rank {number}", rank=number, parent=ROOT)


def nobody(pid: int, role: str = "process ?", **more: object) -> tuple[Process, ProcessView]:
    shown = view(pid, role, parent=ROOT, target_known=not role.startswith("process "))
    return process(pid, parent=ROOT, **more), shown


LAUNCHER = process(), view(ROOT, "launcher")

Round = tuple[Snapshot, Diagnosis]


def job(*members: tuple[Process, ProcessView], diagnosis: Diagnosis = QUIET, **tables: object) -> Round:
    """One round; `at` is set by its place."""
    rows = (LAUNCHER, *members)
    now = msgspec.structs.replace(snapshot(*(row for row, _ in rows)), **tables)
    return now, msgspec.structs.replace(diagnosis, processes=tuple(view for _, view in rows))


def told(*rounds: Round) -> list[tuple[str, str]]:
    """Second, kind and words of what was told after the first round."""
    return [(event.kind, event.summary) for event in log(*rounds)[1:]]


def log(*rounds: Round) -> tuple[Event, ...]:
    event_log = EventLog()
    for second, (facts, diagnosis) in enumerate(rounds):
        event_log = event_log.add(msgspec.structs.replace(facts, taken_at=START + second), diagnosis)
    return event_log.log


def test_it_begins_with_whom_it_watches() -> None:
    (event,) = log(job(rank(0, 4101)))
    assert (event.kind, event.summary, event.pids) == ("watch", f"mpmon watches pid {ROOT}: 2 processes", (ROOT,))


def test_nothing_new_is_nothing_told() -> None:
    assert told(*[job(rank(0, 4101))] * 5) == []


def test_another_bottleneck_is_told_once_also_where_none_was_clear_in_between() -> None:
    def waits(number: int) -> Round:
        found = Bottleneck(pids=(4101 + number,), what="work", summary=f"the others wait for rank {number}")
        return job(diagnosis=msgspec.structs.replace(QUIET, bottleneck=found))

    said = told(job(), waits(0), waits(0), job(), waits(0), waits(1))
    assert said == [("bottleneck", "the others wait for rank 0"), ("bottleneck", "the others wait for rank 1")]


def test_the_moment_is_that_of_the_round() -> None:
    assert log(job(), job(), job(rank(0, 4101)))[-1].at == START + 2


# Who comes


def test_one_that_starts() -> None:
    assert told(job(), job(rank(0, 4101))) == [("born", "rank 0 started (pid 4101)")]


def test_those_of_a_kind_that_start_together_are_told_together() -> None:
    ranks = [rank(n, 4101 + n) for n in range(6)]
    assert told(job(), job(*ranks)) == [("born", "rank 0, rank 1, rank 2 and 3 more started (pids 4101-4106)")]


def test_one_whose_role_is_not_known_yet_is_told_as_what_it_turns_out_to_be() -> None:
    rounds = [job(), job(nobody(4101)), job(nobody(4101)), job(rank(3, 4101))]
    assert told(*rounds) == [("born", "rank 3 started (pid 4101)")]


def test_one_that_has_but_the_name_of_its_process_may_yet_turn_out_to_be_somebody() -> None:
    named = job(nobody(4101, "process SpawnProcess-1"))
    assert told(job(), named, named, job(rank(3, 4101))) == [("born", "rank 3 started (pid 4101)")]
    assert told(job(), *[named] * 4) == [("born", "process SpawnProcess-1 started (pid 4101)")]


def test_one_that_remains_nobody_is_told_after_a_while() -> None:
    rounds = [job(), *[job(nobody(4101, "subprocess", name="git"))] * 6]
    assert told(*rounds) == [("born", "subprocess git started (pid 4101)")]
    assert told(*rounds[:4]) == []


def test_a_rank_that_takes_the_place_of_one_that_ended_has_started_again() -> None:
    rounds = [job(rank(0, 4101)), job(), job(rank(0, 4201))]
    assert told(*rounds)[-1] == ("restarted", "rank 0 started again (pid 4201)")


def test_ranks_that_started_again_and_others_that_came_with_them() -> None:
    rounds = [job(rank(0, 4101)), job(), job(rank(0, 4201), rank(1, 4202))]
    assert told(*rounds)[1:] == [
        ("born", "rank 1 started (pid 4202)"),
        ("restarted", "rank 0 started again (pid 4201)"),
    ]


def test_of_ranks_that_ended_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "MOST_RANKS", 1)
    rounds = [job(rank(0, 4101)), job(rank(1, 4102)), job(), job(rank(0, 4201), rank(1, 4202))]
    assert told(*rounds)[-2:] == [
        ("born", "rank 1 started (pid 4202)"),
        ("restarted", "rank 0 started again (pid 4201)"),
    ]


# Who ends


def test_a_zombie_tells_how_it_ended_and_is_told_once() -> None:
    zombie = job(rank(2, 4103, state="Z", exit_code=9))
    rounds = [job(rank(2, 4103)), zombie, zombie, job()]
    assert told(*rounds) == [("died", "rank 2 (pid 4103) was killed by SIGKILL (9)")]


@pytest.mark.parametrize(
    ("code", "words", "bad"),
    [
        (0, "ended with exit status 0", False),
        (7 << 8, "ended with exit status 7", True),
        (15, "was killed by SIGTERM (15)", True),
    ],
)
def test_how_one_ended(code: int, words: str, bad: bool) -> None:
    event = log(job(rank(2, 4103)), job(rank(2, 4103, state="Z", exit_code=code)))[-1]
    assert (event.summary, event.bad) == (f"rank 2 (pid 4103) {words}", bad)


def gone(row: Process, exit_code: int | None = None) -> Exit:
    last = msgspec.structs.replace(row, exit_code=exit_code)
    return Exit(pid=row.pid, start_time=row.start_time, seen_at=START, process=last)


def test_one_that_was_collected_before_anybody_looked() -> None:
    row, view = rank(2, 4103)
    assert told(job((row, view)), job(exits=(gone(row),))) == [
        ("died", "rank 2 (pid 4103) ended (how was not observed)")
    ]


def test_the_status_of_one_that_was_collected_may_be_known_all_the_same() -> None:
    row, view = rank(2, 4103)
    assert told(job((row, view)), job(exits=(gone(row, 7 << 8),))) == [
        ("died", "rank 2 (pid 4103) ended with exit status 7")
    ]
    by_its_parent = KnownChild(pid=ROOT, child=4103, returncode=-11)
    assert told(job((row, view)), job(exits=(gone(row),), remembered=(by_its_parent,))) == [
        ("died", "rank 2 (pid 4103) was killed by SIGSEGV (11)")
    ]


def test_those_that_end_alike_are_told_together() -> None:
    alive = job(*(rank(n, 4101 + n) for n in range(3)))
    killed = job(*(rank(n, 4101 + n, state="Z", exit_code=6 if n == 1 else 15) for n in range(3)))
    assert told(alive, killed) == [
        ("died", "rank 1 (pid 4102) was killed by SIGABRT (6)"),
        ("died", "rank 0 and rank 2 (pids 4101 and 4103) were killed by SIGTERM (15)"),
    ]


def test_who_failed_by_itself_is_told_before_its_launcher_and_those_that_were_asked_to_end() -> None:
    alive = job(*(rank(n, 4101 + n) for n in range(3)))
    over = snapshot(
        process(state="Z", exit_code=1 << 8), *(rank(n, 4101 + n, state="Z", exit_code=c)[0] for n, c in _ENDS)
    )
    assert [words.partition(" (")[0] for _, words in told(alive, (over, alive[1]))] == [
        "rank 2", "launcher", "rank 0", "rank 1", "the job ended",
    ]  # fmt: skip


_ENDS = ((0, 15), (1, 0), (2, 9))
"""Ranks, and how they ended."""


def test_one_that_comes_and_ends_between_two_looks_is_told_once() -> None:
    row, view = nobody(4101, "subprocess", name="git")
    rounds = [job(), job((row, view)), job(exits=(gone(row, 0),))]
    assert told(*rounds) == [("died", "subprocess git (pid 4101) started and ended with exit status 0")]


def test_a_pid_that_is_used_again_is_another_process() -> None:
    before, after = rank(0, 4101), rank(0, 4101, start_time=START + 1)
    assert [kind for kind, _ in told(job(before), job(after))] == ["died", "restarted"]


def test_a_zombie_that_was_there_before_mpmon_came_is_no_news() -> None:
    zombie = job(rank(2, 4103, state="Z", exit_code=9))
    assert told(zombie, zombie, job()) == []


def test_the_job_ends() -> None:
    last = (snapshot(process(state="Z", exit_code=0)), QUIET)
    assert told(job(), last, last)[-1:] == [("job-ended", "the job ended")]


# What mpmon says


def finding(certainty: Certainty = Certainty.LIKELY, pid: int = 4101, cause: str = "worker-stuck") -> Finding:
    suspect = Suspect(pid=pid, role="rank 0")
    return Finding(cause=cause, certainty=certainty, summary="Rank 0 is stuck.", suspects=(suspect,))


def says(verdict: Verdict, *findings: Finding, since: float | None = None, because: str = "so it is") -> Round:
    return job(diagnosis=Diagnosis(verdict=verdict, findings=findings, since=since, because=because))


def test_a_hang_begins_and_ends() -> None:
    hung = says(Verdict.HUNG, finding(), since=START - 4)
    assert told(says(Verdict.HEALTHY), hung, hung, says(Verdict.SLOW)) == [
        ("verdict", "healthy: so it is"),
        ("hang-began", "the job hangs, for 5 s now"),
        ("finding-began", "worker-stuck (likely): Rank 0 is stuck."),
        ("hang-ended", "the job no longer hangs; slow: so it is"),
        ("finding-ended", "no longer: worker-stuck of rank 0"),
    ]


def test_a_finding_becomes_surer() -> None:
    rounds = [says(Verdict.HUNG, finding()), says(Verdict.HUNG, finding(Certainty.PROVED))]
    assert told(*rounds)[-1] == ("finding-changed", "worker-stuck is now proved")


def test_another_suspect_is_another_finding() -> None:
    rounds = [says(Verdict.HUNG, finding()), says(Verdict.HUNG, finding(pid=4102))]
    assert [kind for kind, _ in told(*rounds)[-2:]] == ["finding-began", "finding-ended"]


def test_a_remark_begins_and_ends() -> None:
    remark = Remark(topic="gpu-shared", summary="Two ranks use GPU 0.", pids=(4101, 4102))
    rounds = [job(), *[job(diagnosis=msgspec.structs.replace(QUIET, remarks=(remark,)))] * 2, job()]
    assert told(*rounds) == [
        ("remark-began", "Two ranks use GPU 0."),
        ("remark-ended", "no longer: Two ranks use GPU 0."),
    ]


# Devices, memory, probes


def gpu(**more: object) -> Gpu:
    return msgspec.structs.replace(Gpu(uuid="GPU-0", index=0, name="H100"), **more)


def test_a_gpu_is_lost_and_comes_back() -> None:
    lost = job(gpus=(gpu(problem="the GPU is lost"),))
    assert told(job(gpus=(gpu(),)), lost, lost, job(gpus=(gpu(),))) == [
        ("gpu-lost", "GPU 0: the GPU is lost"),
        ("gpu-back", "GPU 0 can be read again"),
    ]


def test_errors_the_driver_reports() -> None:
    first, second = Xid(number=31, seen_at=START), Xid(number=79, seen_at=START + 1)
    rounds = [job(gpus=(gpu(),)), job(gpus=(gpu(xids=(first,)),)), job(gpus=(gpu(xids=(first, second)),))]
    assert told(*rounds) == [
        ("xid", "GPU 0: the driver reports Xid 31"),
        ("xid", "GPU 0: the driver reports Xid 79"),
    ]


def test_a_kill_for_memory() -> None:
    killed = job(cgroups=(Cgroup(path="/job", oom_kills=3, oom_kill_seen_at=START + 1),))
    assert told(job(cgroups=(Cgroup(path="/job", oom_kills=2),)), killed, killed) == [
        ("oom-kill", "the out-of-memory killer acted in control group /job (3 times so far)")
    ]


def probed(problem: str | None, *unknown: str) -> Round:
    report = ProbeReport(name="stacks", ok=problem is None, seconds=0.1, problem=problem)
    rows = tuple(Unknown(table="stacks", pid=4101, reason=reason) for reason in unknown)
    return job(probes=(report,), unknowns=rows)


def test_a_probe_fails_and_works_again() -> None:
    rounds = [job(), probed("permission denied"), job(), probed("permission denied"), probed(None)]
    assert told(*rounds) == [("probe-failed", "stacks: permission denied"), ("probe-works", "stacks: works again")]


def test_what_fails_in_one_look_and_not_in_the_next_is_not_told() -> None:
    assert told(job(), probed("the thread ran"), job(), probed(None), probed("the thread ran"), probed("gone")) == []


def test_a_probe_that_is_not_asked_again_is_told_in_the_end() -> None:
    rounds = [probed("permission denied"), *[job()] * int(LASTS_S)]
    assert told(*rounds) == [("probe-failed", "stacks: permission denied")]


def test_another_problem_does_not_mean_that_the_first_was_solved() -> None:
    first, second = probed("permission denied"), probed("out of time")
    assert told(first, first, second, second, probed(None)) == [
        ("probe-failed", "stacks: permission denied"),
        ("probe-failed", "stacks: out of time"),
        ("probe-works", "stacks: works again"),
    ]


def test_a_good_look_at_one_process_is_no_good_look_at_another() -> None:
    rounds = [job(), probed("permission denied", "permission denied"), probed(None, "permission denied")]
    assert told(*rounds, *rounds[1:]) == [("probe-failed", "stacks: permission denied")]


def test_a_process_without_python_is_no_failure() -> None:
    assert told(job(), probed(NOT_PYTHON), probed(None)) == []


def test_the_log_is_bounded() -> None:
    rounds = [says((Verdict.SLOW, Verdict.HEALTHY)[n % 2], because=str(n)) for n in range(LONGEST + 50)]
    found = log(*rounds)
    assert len(found) == LONGEST
    assert found[-1].summary == f"healthy: {LONGEST + 49}"
