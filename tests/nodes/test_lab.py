"""Real sshd and real Slurm on hosts of namespaces: a real hang seen by real agents, hosts that die, cables that are cut."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.commands.export import kit
from mpmon.nodes import join
from tests.nodes.lab import FRONT, Lab, skip_without
from tests.nodes.programs import HOUSE
from tests.patience import becomes, patience, rest_of

pytestmark = pytest.mark.live

TRAIN = Path(__file__).parent / "train.py"
MPMON = (sys.executable, "-m", "mpmon")


def stuck_at() -> int:
    return next(number for number, line in enumerate(TRAIN.read_text().splitlines(), 1) if "# STUCK" in line)


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


joined = pytest.mark.skipif(not hasattr(join, "join"), reason="machines are not joined yet, the first one is shown")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    skip_without()
    with Lab(3) as made:
        made.environment["PYTHONPATH"] = str(HOUSE)
        Job(made, ["h1", "h2", "h3"], stuck=3).hangs()
        yield made


def agents(lab: Lab, *hosts: str) -> list[str]:
    """Where there are some."""
    return [host for host in hosts if lab.run(host, "pgrep", "-f", "[a]gent --stdio", check=False).returncode == 0]


@joined
def test_the_rank_that_is_stuck_on_one_of_three_hosts(lab: Lab) -> None:
    answer = lab.run(FRONT, *MPMON, "--nodes", "h1,h2,h3", "--once", check=False)

    assert (answer.returncode, answer.stderr) == (3, ""), answer
    blames_rank_3(answer.stdout)


def blames_rank_3(report: str) -> None:
    """Itself and its line, its host, and nobody else."""
    first = report.splitlines()[1]
    assert re.search(r"\brank 3\b", first), report
    assert f"train.py:{stuck_at()}" in first, report
    assert re.search(r"rank 3 \(.*\) blocks the others", report), report
    assert re.search(r"\bh2\b", report), report
    assert report.count("cause: ") == 1, report


class Front:
    """mpmon that goes on until it is told to end; what it says, line by line."""

    def __init__(self, lab: Lab, *arguments: str) -> None:
        self._process = lab.start(FRONT, [*MPMON, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._heard = {"stdout": b"", "stderr": b""}

    def __enter__(self) -> Front:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for name in self._heard:
            getattr(self._process, name).close()

    def hear(self, stream: str, words: str) -> str:
        """The next line with these words."""
        left = patience()
        while True:
            line, feed, rest = self._heard[stream].partition(b"\n")
            if feed:
                self._heard[stream] = rest
                if words in line.decode():
                    return line.decode()
                continue
            files = {getattr(self._process, name).fileno(): name for name in self._heard}
            pause = next(left, None)
            assert pause is not None, f"mpmon does not say: {words}"
            ready, _, _ = select.select(list(files), [], [], pause)
            for descriptor in ready:
                chunk = os.read(descriptor, 1 << 16)
                assert chunk, f"mpmon ended before it said: {words}; {self._heard}"
                self._heard[files[descriptor]] += chunk

    def ended(self) -> int:
        """Its status, when it has ended by itself."""
        rest_of(self._process)
        return self._process.returncode

    def interrupt(self) -> int:
        """As Ctrl-C does."""
        os.killpg(self._process.pid, signal.SIGINT)
        rest_of(self._process)
        return self._process.returncode


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


# Slurm


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    skip_without("slurm")
    with Lab(2, slurm=True) as made:
        made.environment["PYTHONPATH"] = str(HOUSE)
        yield made


@pytest.fixture(scope="module")
def number(cluster: Lab) -> str:
    """Of a job of two ranks a node of which one hangs."""
    out = cluster.folder / "job.out"
    script = cluster.folder / "job.sh"
    script.write_text(
        "#!/bin/bash\nexport OMP_NUM_THREADS=1 MASTER_ADDR=h1 MASTER_PORT=29512 GLOO_SOCKET_IFNAME=eth0 STUCK=3\n"
        f"srun {sys.executable} -W ignore {TRAIN}\n"
    )
    submit = ("sbatch", "--parsable", "-N2", "--ntasks-per-node=2", "--mem=1000", "-o", str(out), str(script))
    told = cluster.run(FRONT, *submit).stdout.strip()
    assert becomes(lambda: out.exists() and "stuck" in out.read_text()), out.exists() and out.read_text()
    return told


@joined
def test_the_rank_that_is_stuck_in_a_job_of_slurm(cluster: Lab, number: str) -> None:
    answer = cluster.run(FRONT, *MPMON, "--slurm", number, "--once", check=False)

    assert (answer.returncode, answer.stderr) == (3, ""), answer
    blames_rank_3(answer.stdout)


def test_a_job_of_slurm_is_looked_at_in_a_step_that_ends(cluster: Lab, number: str) -> None:
    answer = cluster.run(FRONT, *MPMON, "--slurm", number, "--once", "--json", check=False)

    assert (answer.returncode, answer.stderr) == (3, ""), answer
    assert json.loads(answer.stdout)["verdict"] == "hung"
    assert agents(cluster, "h1", "h2") == []
    steps = cluster.run(FRONT, "squeue", "--noheader", "--steps", f"--jobs={number}", "--format=%j").stdout.split()
    assert "mpmon" not in steps


def test_a_front_end_that_is_killed_leaves_no_step(cluster: Lab, number: str) -> None:
    with Front(cluster, "--slurm", number, "--json") as front:
        front.hear("stdout", "{")
        assert agents(cluster, "h1", "h2") == ["h1", "h2"]

    assert becomes(lambda: not agents(cluster, "h1", "h2")), agents(cluster, "h1", "h2")


def test_a_job_that_is_cancelled_ends_the_watch(cluster: Lab, number: str) -> None:
    with Front(cluster, "--slurm", number, "--plain") as front:
        front.hear("stdout", "")
        cluster.run(FRONT, "scancel", number)
        assert front.ended() == 0


def test_the_batch_script_looks_at_a_hung_job_before_its_time_is_over(cluster: Lab) -> None:
    """Slurm itself sends the signal: a limit that is as near as the script asks for is near at the next look for limits."""
    folder = cluster.folder / "batch"
    folder.mkdir()
    (folder / "train.sbatch").write_text(kit("slurm"))
    (folder / "train.py").symlink_to(TRAIN)
    variables = {
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "h1",
        "MASTER_PORT": "29513",
        "GLOO_SOCKET_IFNAME": "eth0",
        "STUCK": "3",
    }
    cluster.environment.update(variables, PATH=f"{Path(sys.executable).parent}:{cluster.environment['PATH']}")
    given = ("--parsable", "--ntasks-per-node=2", "--mem=1000", "--time=60", f"--chdir={folder}", "-o", "out")
    number = cluster.run(FRONT, "sbatch", *given, str(folder / "train.sbatch")).stdout.strip()
    out = folder / "out"
    assert becomes(lambda: out.exists() and "stuck" in out.read_text()), out.exists() and out.read_text()
    assert "before the time limit" not in out.read_text()

    cluster.run(FRONT, "scontrol", "update", f"JobId={number}", "TimeLimit=5")
    assert becomes(lambda: "before the time limit: HUNG for" in out.read_text()), out.read_text()
    assert becomes(lambda: "observed for" in (folder / f"hang-{number}.txt").read_text())
    blames_rank_3((folder / f"hang-{number}.txt").read_text())
    replayed = cluster.run(FRONT, *MPMON, "--replay", str(folder / f"hang-{number}.jsonl.gz"), "--once", check=False)
    assert replayed.returncode == 3
    blames_rank_3(replayed.stdout)
    # The job goes on: its time is not over yet.
    assert cluster.run(FRONT, "squeue", "--noheader", f"--jobs={number}", "--format=%T").stdout.strip() == "RUNNING"
    cluster.run(FRONT, "scancel", number)


@pytest.mark.parametrize("job", ["4711", "4711.0"])
def test_no_such_job_of_slurm(cluster: Lab, job: str) -> None:
    answer = cluster.run(FRONT, *MPMON, "--slurm", job, "--once", check=False)

    assert answer.returncode == 4
    assert answer.stderr == "mpmon: there is no Slurm job 4711. List those that run: squeue --me.\n"
