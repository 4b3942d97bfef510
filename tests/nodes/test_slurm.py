"""Real Slurm on hosts of namespaces: a job that hangs, is cancelled, or comes near its time limit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.commands.export import kit
from tests.nodes.lab import FRONT, Lab, skip_without
from tests.nodes.programs import HOUSE
from tests.nodes.watching import MPMON, TRAIN, Front, agents, blames_rank_3
from tests.patience import becomes

pytestmark = pytest.mark.live


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
