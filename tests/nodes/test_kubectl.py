"""The real kubectl, against an API server that is just enough for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.running import Program
from tests.nodes.programs import HOUSE, agent_for
from tests.patience import ran

pytestmark = pytest.mark.live


def minor_version() -> int:
    """Of kubectl 1; 0 where there is none."""
    if not shutil.which("kubectl"):
        return 0
    told = subprocess.run(
        ["kubectl", "version", "--client", "--output=json"], capture_output=True, text=True, check=False
    )
    digits = json.loads(told.stdout)["clientVersion"]["minor"] if told.returncode == 0 else "0"
    return int("".join(filter(str.isdigit, digits)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables with which kubectl finds it."""
    if minor_version() < 30:
        pytest.skip("there is no kubectl 1.30 or newer here")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.nodes.api_server"], stdout=subprocess.PIPE, text=True, cwd=HOUSE
    )
    assert server.stdout
    address = f"http://127.0.0.1:{int(server.stdout.readline())}"
    known = {
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": address}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}], "users": [{"name": "lab", "user": {}}],
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("kube")
    (folder / "config").write_text(json.dumps(known))
    yield {**os.environ, "KUBECONFIG": str(folder / "config"), "HOME": str(folder)}
    server.kill()
    server.wait()
    server.stdout.close()


def mpmon(cluster: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mpmon", *arguments, "--once"]
    return ran(command, env=cluster, stdin=subprocess.DEVNULL, cwd="/")


def test_a_hang_in_a_pod(cluster: dict[str, str], tmp_path: Path) -> None:
    with Program("lock_order.py", "fork").hear("left", "right") as job:
        answer = mpmon(cluster, "--pods", "job-name=train", "-c", "main", "--agent", str(agent_for(tmp_path, job.pid)))

    assert (answer.returncode, answer.stderr) == (3, ""), answer
    assert "cause: lock-cycle" in answer.stdout


def test_a_pod_without_mpmon(cluster: dict[str, str]) -> None:
    answer = mpmon(cluster, "--pods", "job-name=train", "--agent", "/nowhere/mpmon")

    assert answer.returncode == 4
    assert answer.stderr == "mpmon: train-0 has no mpmon. Install it there, or say where it is: --agent PATH.\n"


def test_no_pods(cluster: dict[str, str]) -> None:
    answer = mpmon(cluster, "--pods", "job-name=other")

    assert answer.returncode == 4
    assert answer.stderr == "mpmon: there is no pod with job-name=other. Look with: kubectl get pods --show-labels.\n"
