"""Real sshd on hosts of namespaces: a real hang seen by real agents, hosts that die, cables that are cut, a job that grows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

import pytest

from tests.nodes.lab import FRONT, Lab, skip_without
from tests.nodes.programs import HOUSE
from tests.nodes.watching import MPMON, TRAIN, Front, agents, blames_rank_3, stuck_at
from tests.patience import becomes

pytestmark = pytest.mark.live


class Job:
    """Two ranks a host, each host's below a shell of its own as a launcher would be."""

    def __init__(self, lab: Lab, hosts: list[str], stuck: int) -> None:
        self.out = lab.folder / "job.out"
        common = {"WORLD_SIZE": str(2 * len(hosts)), "MASTER_ADDR": "h1", "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": "eth0",
                  "OMP_NUM_THREADS": "1", "STUCK": str(stuck)}  # fmt: skip
        lab.environment.update(common)
        with self.out.open("ab") as out:
            for number, host in enumerate(hosts):
                ranks = " ".join(
                    f"RANK={2 * number + local} LOCAL_RANK={local} {sys.executable} -W ignore {TRAIN} &"
                    for local in (0, 1)
                )
                lab.start(host, ["bash", "-c", f"{ranks} wait"], stdout=out, stderr=out)

    def hangs(self) -> None:
        assert becomes(lambda: "stuck" in self.out.read_text()), self.out.read_text()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    skip_without()
    with Lab(3) as made:
        made.environment["PYTHONPATH"] = str(HOUSE)
        Job(made, ["h1", "h2", "h3"], stuck=3).hangs()
        yield made


def test_the_rank_that_is_stuck_on_one_of_three_hosts(lab: Lab) -> None:
    answer = lab.run(FRONT, *MPMON, "--nodes", "h1,h2,h3", "--once", check=False)

    assert (answer.returncode, answer.stderr) == (3, ""), answer
    blames_rank_3(answer.stdout)


def test_a_host_that_is_cut_off_comes_back_and_one_that_dies_does_not_keep_the_others(lab: Lab) -> None:
    with Front(lab, "--nodes", "h1,h2,h3", "--json") as front:
        front.hear("stdout", "{")
        lab.cut("h3")
        assert "h3" in front.hear("stderr", "silent for")
        front.hear("stdout", "{")
        lab.mend("h3")
        front.hear("stderr", "h3 is back")
        lab.kill("h3")
        assert "h3" in front.hear("stderr", "mpmon: h3")
        front.hear("stdout", "{")
        assert agents(lab, "h1", "h2") == ["h1", "h2"]
        front.interrupt()

    assert agents(lab, "h1", "h2") == []


def test_a_host_where_the_processes_may_not_be_read() -> None:
    skip_without()
    with Lab(3, poorer={"h3"}) as lab:
        lab.environment["PYTHONPATH"] = str(HOUSE)
        Job(lab, ["h1", "h2", "h3"], stuck=3).hangs()
        answer = lab.run(FRONT, *MPMON, "--nodes", "h1,h2,h3", "--once", check=False)

    assert (answer.returncode, answer.stderr) == (3, ""), answer
    first = answer.stdout.splitlines()[1]
    assert re.match(rf"  rank 3 \(pid \d+ on h2\) .* at train.py:{stuck_at()} ", first), answer.stdout
    assert (
        "mpmon lacks the rights to read the job on h3, which it has on other machines (rights-differ)" in answer.stdout
    )
    assert re.search(r"h3 +\d+ S +rank 4 +unreadable", answer.stdout), answer.stdout


def test_a_front_end_that_is_killed_leaves_no_agent(lab: Lab) -> None:
    with Front(lab, "--nodes", "h1,h2", "--json") as front:
        front.hear("stdout", "{")
        assert agents(lab, "h1", "h2") == ["h1", "h2"]

    assert becomes(lambda: not agents(lab, "h1", "h2")), agents(lab, "h1", "h2")


class Growing:
    """A job of two ranks on h1, which when it is told begins anew with four, of which the last two are on h2."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._go, self.out = lab.folder / "go", lab.folder / "growing.out"
        lab.environment.update(
            MASTER_ADDR="h1", GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1", TORCHELASTIC_RUN_ID="cats"
        )
        os.mkfifo(self._go)
        self._start(
            "h1", f"{self._ranks(0, 2, 29600)} read <{self._go}; kill $pids; wait; {self._ranks(0, 4, 29700)} wait"
        )
        assert becomes(lambda: "going" in self.out.read_text()), self.out.read_text()

    def grow(self) -> None:
        self._start("h2", f"{self._ranks(2, 4, 29700)} wait")
        self._go.write_text("go\n")

    def _start(self, host: str, script: str) -> None:
        with self.out.open("ab") as out:
            self._lab.start(host, ["bash", "-c", script], stdout=out, stderr=out)

    @staticmethod
    def _ranks(first: int, world: int, port: int) -> str:
        """As torchrun has it: the port is another one each time (torch/distributed/elastic), the name of the run stays."""
        names = f"WORLD_SIZE={world} MASTER_PORT={port} STUCK=3"
        started = (
            f'RANK={rank} {names} {sys.executable} -W ignore {TRAIN} & pids+=" $!";' for rank in (first, first + 1)
        )
        return f"pids=; {' '.join(started)}"


def test_an_elastic_job_that_grows_is_seen_on_its_new_host() -> None:
    skip_without()
    with Lab(2) as lab:
        lab.environment["PYTHONPATH"] = str(HOUSE)
        job = Growing(lab)
        with Front(lab, "--nodes", "h1,h2", "--plain") as front:
            assert "no process of the job runs there" in front.hear("stderr", "h2")
            front.hear("stdout", "mpmon watches a job on h1")
            job.grow()
            front.hear("stdout", "rank 0 and rank 1 started again")
            front.hear("stderr", "h2 is back")
            found = front.hear("stdout", f"train.py:{stuck_at()}")
            front.interrupt()
    assert re.search(r"rank 3 \(pid \d+ on h2\)", found), found
