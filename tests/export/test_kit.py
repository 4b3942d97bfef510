"""The files for a start are right: what they name exists, and the programs that read them take them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mpmon.commands.export import KIT, PROGRAM, kit
from mpmon.export.samples import Samples
from tests.export.test_samples import observation, ranks
from tests.patience import ran, status_of
from tests.test_cli import mpmon

RULES = Path(__file__).parent / "mpmon.rules.test.yml"


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (Debian: {package})")
    return found


def accepted(*command: str, **more: object) -> None:
    answer = ran(command, **more)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("name", KIT)
def test_it_is_printed(name: str) -> None:
    answer = mpmon("export", "--print", name)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == kit(name)
    assert PROGRAM not in answer.stdout


def test_what_cannot_be_printed() -> None:
    answer = mpmon("export", "--print", "poster")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "invalid choice: 'poster'" in answer.stderr


# Alerts


def test_promtool_takes_the_alerts(tmp_path: Path) -> None:
    promtool = program("promtool", "prometheus")
    (tmp_path / "mpmon.rules.yml").write_text(kit("alerts"))
    shutil.copy(RULES, tmp_path)
    accepted(promtool, "check", "rules", "mpmon.rules.yml", cwd=tmp_path)
    accepted(promtool, "test", "rules", RULES.name, cwd=tmp_path)


# The dashboard


def expressions() -> list[str]:
    panels = json.loads(kit("dashboard"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def metrics() -> set[str]:
    """Every name that the exporter has."""
    families = Samples().add(observation(*ranks(2)), 0.0)
    ends = {"counter": "_total", "info": "_info", "gauge": ""}
    return {family.name + ends[family.kind] for family in families}


def test_dashboard_and_alerts_know_the_metrics_that_exist() -> None:
    texts = [*expressions(), kit("alerts"), json.dumps(json.loads(kit("dashboard"))["templating"])]
    named = {name for text in texts for name in re.findall(r"\bmpmon_\w+", text)}
    assert named == metrics()


def test_labels_of_the_dashboard_exist() -> None:
    families = Samples().add(observation(*ranks(2)), 0.0)
    known = {label for family in families for label in family.labels}
    grouped = {
        word.strip()
        for text in expressions()
        for words in re.findall(r"by \(([^)]*)\)", text)
        for word in words.split(",")
    }
    shown = set(re.findall(r"\{\{(\w+)\}\}", kit("dashboard")))
    assert grouped | shown <= known


def test_promtool_takes_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    promtool = program("promtool", "prometheus")
    rules = [
        {"record": f"panel:{number}", "expr": expr.replace("$job_id", ".*").replace("$__rate_interval", "1m")}
        for number, expr in enumerate(expressions())
    ]
    assert rules
    # JSON is YAML.
    (tmp_path / "panels.json").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    accepted(promtool, "check", "rules", "panels.json", cwd=tmp_path)


def test_the_panels_do_not_overlap() -> None:
    dashboard: dict[str, Any] = json.loads(kit("dashboard"))
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))


# The unit


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = program("systemd-analyze", "systemd")
    file = tmp_path / "mpmon-export@.service"
    file.write_text(kit("unit"))
    instance = tmp_path / "mpmon-export@4100.service"
    instance.symlink_to(file)
    answer = ran([verify, "verify", "--man=no", str(instance)], env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
    if "Failed to initialize manager" in answer.stderr or "Failed to connect" in answer.stderr:
        pytest.skip("systemd-analyze verifies nothing here")
    assert (answer.returncode, answer.stderr) == (0, "")


def test_the_command_of_the_unit_is_one_of_mpmon() -> None:
    command = re.findall(r"^ExecStart=(.*)$", kit("unit"), re.MULTILINE)[0].replace("%i", "4100").split()
    from mpmon.commands.export import parser

    assert command[:3] == [sys.executable, "-m", "mpmon"]
    given = parser().parse_args(command[4:])
    assert (given.pid, given.textfile) == (4100, "/run/mpmon-export/4100.prom")


# The batch script


def test_the_batch_script_looks_before_the_limit_and_ends_as_the_training(tmp_path: Path) -> None:
    """With a training that goes on until mpmon, which stands in for itself, has looked."""
    accepted("bash", "-n", "-c", kit("slurm"))
    pipe = tmp_path / "looked"
    os.mkfifo(pipe)
    standins = {
        "srun": f'echo ready; read -r word <"{pipe}"; echo "$*: $word"; exit 7',
        "looks": f'echo "HUNG: $*"; echo went on >"{pipe}"',
    }
    for name, script in standins.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train.sbatch").write_text(kit("slurm").replace(f"{sys.executable} -m mpmon", str(tmp_path / "looks")))
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "4711"}
    with subprocess.Popen(
        ["bash", "train.sbatch", "--epochs", "3"], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout
        assert script.stdout.readline() == "ready\n"
        script.send_signal(signal.SIGUSR1)
        said = script.stdout.read()
        status = status_of(script)
    report = "HUNG: --slurm 4711.0 --once --record hang-4711.jsonl.gz"
    assert status == 7
    assert sorted(said.splitlines()) == sorted(
        [f"before the time limit: {report}", "--label python train.py --epochs 3: went on"]
    )
    assert (tmp_path / "hang-4711.txt").read_text() == f"{report}\n"
