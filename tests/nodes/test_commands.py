"""`--slurm`, `--nodes` and `--pods` as a user's shell sees them, with programs that stand in for the real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mpmon import __version__
from mpmon.nodes.transports.pods import Pods
from mpmon.nodes.transports.slurm import Slurm
from mpmon.nodes.transports.ssh import Ssh, names_of
from tests.live.running import Program
from tests.nodes.programs import agent_for, environment, mpmon
from tests.patience import becomes, left_of, rest_of

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def job() -> Iterator[Program]:
    """Two processes that wait for each other."""
    with Program("lock_order.py", "fork").hear("left", "right") as program:
        yield program


@pytest.fixture
def agent(tmp_path: Path, job: Program) -> str:
    return str(agent_for(tmp_path, job.pid))


def said(answer: subprocess.CompletedProcess[str]) -> list[str]:
    assert "Traceback" not in answer.stderr
    assert "defect" not in answer.stderr
    return answer.stderr.splitlines()


# What goes well


@pytest.mark.parametrize(
    "way",
    [
        ["--nodes", "good"],
        ["--slurm", "7"],
        ["--slurm", "7.0"],
        ["--pods", "job-name=train", "-n", "lab", "-c", "main"],
    ],
)
def test_one_node(tmp_path: Path, agent: str, job: Program, way: list[str]) -> None:
    answer = mpmon(tmp_path, *way, "--once", "--agent", agent, nodes="good")

    assert (answer.returncode, said(answer)) == (3, [])
    assert "cause: lock-cycle" in answer.stdout


def test_json_and_a_recording(tmp_path: Path, agent: str, job: Program) -> None:
    file = tmp_path / "hang.jsonl.gz"
    answer = mpmon(tmp_path, "--nodes", "good", "--once", "--json", "--record", str(file), "--agent", agent)
    again = mpmon(tmp_path, "--replay", str(file), "--once")

    assert answer.returncode == again.returncode == 3
    assert [row["cause"] for row in json.loads(answer.stdout)["findings"]] == ["lock-cycle"]
    assert "cause: lock-cycle" in again.stdout


# Bad luck: each is a sentence, and the others go on


LUCK = {
    "dead": "dead cannot be reached.",
    "strange": "strange has a host key that is not known here.",
    "locked": "locked does not let you in.",
    "unknown": "unknown has a name that is not known here.",
    "bare": "bare has no mpmon.",
    "old": "old has mpmon 0.0.1, not ",
    "newer": "newer speaks version 2 of mpmon's protocol",
    "garbage": "garbage sends more than 1 MiB of something else.",
    "endless": "endless sends more than 32 MiB at once.",
    "turncoat": "turncoat sends more than 1 MiB of something else.",
}


def test_nodes_with_bad_luck_do_not_keep_the_others(tmp_path: Path, agent: str, job: Program) -> None:
    answer = mpmon(tmp_path, "--nodes", ",".join(["good", *LUCK]), "--once", "--agent", agent)

    assert answer.returncode == 3
    assert "cause: lock-cycle" in answer.stdout
    told = said(answer)
    for words in LUCK.values():
        assert len([line for line in told if words in line]) == 1, (words, told)
    assert len(told) == len(LUCK)


def remarked(answer: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {row["topic"]: row for row in json.loads(answer.stdout)["remarks"]}


def test_what_is_wrong_with_nodes_is_remarked_and_no_finding(tmp_path: Path, agent: str, job: Program) -> None:
    answer = mpmon(tmp_path, "--nodes", "good,old,dead,locked", "--once", "--json", "--agent", agent)
    found = remarked(answer)

    assert [row["cause"] for row in json.loads(answer.stdout)["findings"]] == ["lock-cycle"]
    assert found["node-unreachable"]["summary"] == "3 of 4 machines do not answer: dead, locked and old"
    assert found["node-unreachable"]["evidence"][0] == "dead cannot be reached"
    assert found["version-mismatch"]["summary"].endswith(f"{__version__} on good")
    assert {"clock-skew", "rights-differ", "node-slow"}.isdisjoint(found)


def test_of_nodes_that_are_well_nothing_is_remarked(tmp_path: Path, agent: str, job: Program) -> None:
    found = remarked(mpmon(tmp_path, "--nodes", "good", "--once", "--json", "--agent", agent))
    assert {"node-unreachable", "version-mismatch", "clock-skew", "rights-differ", "node-slow"}.isdisjoint(found)


def test_a_clock_that_is_wrong(tmp_path: Path, agent: str, job: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_CLOCK", str(tmp_path / "clock"))
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(
        "import time\nright = time.time\ntime.time = lambda: right() + 5430\n"
    )
    found = remarked(mpmon(tmp_path, "--nodes", "skewed", "--once", "--json", "--agent", agent))
    assert found["clock-skew"]["summary"] == "clocks of machines are wrong: skewed by 1 h 30 min ahead"


def test_nothing_is_left_of_nodes_with_bad_luck(tmp_path: Path, agent: str, job: Program) -> None:
    mpmon(tmp_path, "--nodes", ",".join(["good", *LUCK]), "--once", "--agent", agent)
    assert becomes(
        lambda: not [row for row in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(row.info["cmdline"])]
    )


def test_three_of_many_nodes_that_are_dead(tmp_path: Path, agent: str, job: Program) -> None:
    answer = mpmon(tmp_path, "--nodes", "dead1,good,dead2,dead3", "--once", "--agent", agent)

    assert answer.returncode == 3
    assert sorted(said(answer)) == [f"mpmon: dead{number} cannot be reached." for number in (1, 2, 3)]
    assert "3 of 4 machines do not answer: dead1, dead2 and dead3 (node-unreachable)" in answer.stdout


def test_an_agent_that_talks_without_end_is_left_out(tmp_path: Path, agent: str, job: Program) -> None:
    front = subprocess.Popen(
        [sys.executable, "-m", "mpmon", "--nodes", "good,babbler", "--json", "--agent", agent], env=environment(tmp_path),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/",
    )  # fmt: skip
    assert front.stderr
    words = front.stderr.readline()
    front.send_signal(signal.SIGINT)
    rest_of(front)

    assert words == b"mpmon: babbler sends more than 1000 messages at once.\n"


def test_one_task_of_a_step_without_mpmon(tmp_path: Path, agent: str, job: Program) -> None:
    answer = mpmon(tmp_path, "--slurm", "7", "--once", "--agent", agent, nodes="good,bare,old")

    assert answer.returncode == 3
    told = said(answer)
    assert "mpmon: bare has no mpmon." in told
    assert any(line.startswith("mpmon: old has mpmon 0.0.1") for line in told)


@pytest.mark.parametrize(
    ("way", "nodes", "status", "sentence"),
    [
        (["--nodes", "dead"], "", 4, "dead cannot be reached. Check it, or leave it out of --nodes."),
        (["--nodes", "bare"], "", 4, "bare has no mpmon. Install it there, or say where it is: --agent PATH."),
        (["--nodes", "dead,strange"], "", 4, ("dead cannot be reached; strange: not reached either. "
         "Check it, or leave it out of --nodes.")),
        (["--nodes", "brief"], "", 4, "brief lost its agent (status 0)."),
        (["--nodes", ""], "", 2, "--nodes names no node. For example: --nodes 'n[1-4]'."),
        (["--nodes", "-oProxyCommand=x"], "", 2, None),
        (["--nodes=-oProxyCommand=x"], "", 2, "-oProxyCommand=x is not the name of a machine. For example: --nodes 'n[1-4]'."),
        (["--slurm", "9"], "good", 4, "there is no Slurm job 9. List those that run: squeue --me."),
        (["--slurm", "8"], "good", 4, "Slurm job 8 is PENDING. List those that run: squeue --me --states=RUNNING."),
        (["--slurm", "seven"], "", 2, "seven is not a Slurm job. Give its number, or one of its steps: 7, 7.0, 7_1."),
        (["--slurm", "7"], "foreign", 4, ("foreign may not be accessed: the job belongs to another user. "
         "Ask its owner, or run as root.")),
        (["--pods", "job-name=none"], "", 4, "there is no pod with job-name=none. Look with: kubectl get pods --show-labels."),
        (["--pods", "job-name=train"], "denied", 4, ("denied refuses kubectl exec: you lack permission. Ask for "
         "the RBAC permission to create pods/exec.")),
        (["--pods", "x", "--nodes", "y"], "", 2, "--nodes and --pods do not go together. Give one of them."),
        (["--slurm", "7", "4100"], "", 2, "--slurm and a PID do not go together. Give one of them."),
        (["--nodes", "n1", "-n", "lab"], "", 2, ("--namespace and --container require --pods. "
         "For example: --pods job-name=train -n lab.")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(
    tmp_path: Path, way: list[str], nodes: str, status: int, sentence: str | None
) -> None:
    answer = mpmon(tmp_path, *way, "--once", nodes=nodes)

    assert answer.returncode == status, answer
    if sentence:
        assert said(answer) == [f"mpmon: {sentence}"]


@pytest.mark.parametrize(("option", "program"), [("--slurm", "srun"), ("--nodes", "ssh"), ("--pods", "kubectl")])
def test_a_program_that_is_not_there(tmp_path: Path, option: str, program: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "mpmon", option, "7", "--once"], env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert answer.returncode == 2
    (line,) = said(answer)
    assert f"there is no program {program} here." in line


def test_nodes_that_a_job_has_got_are_asked_for_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(tmp_path, "n1,n2,n3").items():
        monkeypatch.setenv(name, value)
    (srun,), (kubectl,) = Slurm("7").added({"n1", "n3"}), Pods("job-name=train").added({"n1", "n3"})

    assert (srun.nodes, kubectl.nodes) == (("n2",), ("n2",))
    assert {"--nodelist=n2", "--nodes=1", "--ntasks=1"} <= set(srun.words)
    assert Slurm("7").added({"n1", "n2", "n3"}) == Pods("job-name=train").added({"n1", "n2", "n3"}) == []
    assert not any(word.startswith("--nodelist") for word in Slurm("7").carriers()[0].words)
    assert Ssh("n1").added(()) == []


# The end


def test_a_front_end_that_is_killed_leaves_nothing(tmp_path: Path, agent: str, job: Program) -> None:
    front = subprocess.Popen(
        [sys.executable, "-m", "mpmon", "--nodes", "one,two", "--json", "--agent", agent], env=environment(tmp_path),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
    )  # fmt: skip
    assert front.stdout
    assert front.stderr
    assert front.stdout.readline()
    below = psutil.Process(front.pid).children(recursive=True)
    assert any("agent" in word for process in below for word in process.cmdline())
    front.send_signal(signal.SIGKILL)
    front.wait()

    assert left_of(below) == []
    front.stdout.close()
    front.stderr.close()


def test_the_stream_ends_with_the_job(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as short:
        front = subprocess.Popen(
            [sys.executable, "-m", "mpmon", "--nodes", "one", "--plain", "--agent", str(agent_for(tmp_path, short.pid))],
            env=environment(tmp_path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
        )  # fmt: skip
        assert front.stdout
        first = front.stdout.readline().decode()
        assert short.stdin
        short.stdin.close()
        said, complaints = rest_of(front)

    assert (front.returncode, complaints) == (0, b"")
    assert first.endswith("mpmon watches a job on one: 1 process\n")
    # What the trees of the machines are joined by is no process, and the last words of the agents are told once.
    *_, died, ended = (line[20:] for line in said.decode().splitlines())
    assert (died.partition(" (")[2].partition(")")[0], ended) == (f"pid {short.pid} on one", "the job ended")
    assert said.decode().count(" ended") == 2


# Names


def test_sets_of_nodes_are_those_of_clustershell() -> None:
    pytest.importorskip("ClusterShell", reason="without ClusterShell nodes are named one by one")
    assert names_of("n[1-3,7],m1") == ("m1", "n1", "n2", "n3", "n7")


def test_plain_names_need_no_clustershell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ClusterShell", None)
    monkeypatch.setitem(sys.modules, "ClusterShell.NodeSet", None)

    assert names_of("n1,n2, user@n3,n1") == ("n1", "n2", "user@n3")
