"""Real Slurm and one job of two hosts in which one thing after the other goes wrong: each time the right host, rank and line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.lab import FABRIC, FRONT, Lab, skip_without
from tests.nodes.programs import HOUSE
from tests.nodes.watching import MPMON, Front, agents
from tests.patience import becomes

pytestmark = pytest.mark.live

FAULTY = Path(__file__).parent / "faulty.py"
LOADING_S = 90.0
"""Four times torch on two CPUs."""


def line_of(mark: str) -> int:
    return next(number for number, line in enumerate(FAULTY.read_text().splitlines(), 1) if line.endswith(f"# {mark}"))


class Job:
    """Two ranks a host, whose data goes over a network of its own."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.faults = lab.folder / "faults"
        self.faults.mkdir()
        os.mkfifo(self.faults / "fifo")
        out, script = lab.folder / "faulty.out", lab.folder / "faulty.sh"
        script.write_text(
            f"#!/bin/bash\nexport OMP_NUM_THREADS=1 MASTER_ADDR=h1 MASTER_PORT=29514 GLOO_SOCKET_IFNAME={FABRIC}\n"
            f"export FAULTS={self.faults}\nsrun {MPMON[0]} -W ignore {FAULTY}\n"
        )
        submit = ("sbatch", "--parsable", "-N2", "--ntasks-per-node=2", "--mem=1000", "-o", str(out), str(script))
        self.number = lab.run(FRONT, *submit).stdout.strip()
        assert becomes((self.faults / "step").exists, seconds=LOADING_S), out.exists() and out.read_text()

    def goes_on(self) -> None:
        before = self._step()
        assert becomes(lambda: self._step() > before + 2, seconds=LOADING_S), before

    def _step(self) -> int:
        return int((self.faults / "step").read_text())

    def signal(self, rank: int, name: str) -> None:
        self._lab.run(f"h{rank // 2 + 1}", "kill", f"-{name}", (self.faults / f"pid-{rank}").read_text())

    def tell(self, fault: str) -> None:
        (self.faults / fault).touch()

    def feed(self) -> None:
        """What the worker waits for."""
        (self.faults / "fifo").write_text("data")

    def found(self, cause: str) -> dict[str, Any]:
        """The first finding of a look that finds this; a look may come too early, but it finds no other cause."""
        seen: list[dict[str, Any]] = []

        def is_found() -> bool:
            answer = self._lab.run(FRONT, *MPMON, "--slurm", self.number, "--once", "--json", check=False)
            seen[:] = json.loads(answer.stdout)["findings"]
            return bool(seen)

        assert becomes(is_found), cause
        assert seen[0]["cause"] == cause, seen[0]["summary"]
        return seen[0]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    skip_without("slurm")
    with Lab(2, slurm=True, fabric=True) as made:
        made.environment["PYTHONPATH"] = str(HOUSE)
        yield made


@pytest.fixture(scope="module")
def job(lab: Lab) -> Job:
    return Job(lab)


def where(finding: dict[str, Any]) -> tuple[object, ...]:
    """The one who must act: host, rank, line of the program."""
    (suspect,) = finding["suspects"]
    return suspect["host"], suspect["rank"], suspect["frame"]["file"].rpartition("/")[2], suspect["frame"]["line"]


# One after the other, as the job goes on after each but the last.


def test_a_rank_that_was_stopped(job: Job) -> None:
    job.signal(3, "STOP")
    host, rank, *_ = where(job.found("stopped"))
    job.signal(3, "CONT")
    job.goes_on()
    assert (host, rank) == ("h2", 3)


def test_a_loader_worker_that_is_stuck(job: Job) -> None:
    job.tell("worker-3")
    found = job.found("worker-stuck")
    job.feed()
    job.goes_on()
    assert where(found) == ("h2", 3, "faulty.py", line_of("WORKER"))
    assert found["suspects"][0]["role"] == "dataloader worker 0 of rank 3"


def test_a_cable_that_is_cut_while_the_agents_answer(lab: Lab, job: Job) -> None:
    lab.cut("h2", FABRIC)
    found = job.found("link-stalled")
    lab.mend("h2", FABRIC)
    job.goes_on()
    assert found["suspects"] == []
    assert {"h1", "h2"} <= set(found["summary"].replace(",", "").split()), found["summary"]


def test_a_host_that_is_silent_while_the_job_goes_on(lab: Lab, job: Job) -> None:
    with Front(lab, "--slurm", job.number, "--json") as front:
        front.hear("stdout", "{")
        lab.cut("h2")
        said = front.hear("stderr", "silent for")
        found = json.loads(front.hear("stdout", '"node-unreachable"'))
        lab.mend("h2")
        front.hear("stderr", "h2 is back")
        front.interrupt()
    assert said.startswith("mpmon: h2 has not answered, silent for")
    assert said.endswith("; ranks 2-3 run there.")
    assert found["findings"] == []
    assert agents(lab, "h1", "h2") == []


def test_a_rank_in_another_collective(job: Job) -> None:
    job.tell("mismatch-3")
    assert where(job.found("collective-mismatch")) == ("h2", 3, "faulty.py", line_of("MISMATCH"))
