"""A real Prometheus that scrapes a real export of a job that really hangs, asked what the dashboard asks it."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mpmon.commands.export import kit
from tests.export.test_export import exporting
from tests.export.test_kit import program
from tests.live.running import Program
from tests.nodes.programs import agent_for, environment
from tests.nvml import GIB, Scenario
from tests.nvml.fixture import Standin
from tests.patience import LONGEST_S, becomes, status_of

pytestmark = pytest.mark.live

EXPORTED = {"job_id": "cats", "cause": "worker-stuck", "host": "good"}


@contextlib.contextmanager
def listening(log: Path, *words: str) -> Iterator[str]:
    """A server that is told to take any port; the address it says it has."""
    with log.open("wb") as out, subprocess.Popen(words, stdout=out, stderr=out, cwd=log.parent) as process:
        try:
            assert becomes(lambda: said_address(log) or process.poll() is not None), log.read_text()
            yield said_address(log) or pytest.fail(log.read_text())
        finally:
            process.kill()


def said_address(log: Path) -> str | None:
    found = re.search(r'"Listening on".* address=(\S+)', log.read_text())
    return found[1] if found else None


def asked(address: str, path: str, **question: str) -> Any:
    """What an API of Prometheus answers; a question that it does not understand is an error."""
    ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    with ask(f"http://{address}{path}?{urllib.parse.urlencode(question)}", timeout=LONGEST_S) as answer:
        return json.load(answer)["data"]


@pytest.fixture
def exported(tmp_path: Path, nvml: Standin) -> Iterator[str]:
    """The address of an export of a job whose loader is stuck, on a machine with a GPU, watched as one of many."""
    with Program("loader.py").hear("child") as job:
        nvml.say(Scenario().process(gpu=0, pid=job.pid, memory=GIB, sm=10))
        agent = str(agent_for(tmp_path, job.pid))
        variables = {**nvml.environment, **environment(tmp_path, "good")}
        (tmp_path / "text").mkdir()
        with exporting(
            "--nodes", "good", "--agent", agent, "--job-id", "cats", "--listen", "0",
            "--textfile", str(tmp_path / "text" / "job.prom"), **variables,
        ) as running:  # fmt: skip
            assert running.stderr
            yield running.stderr.readline().split("/")[2]
            running.send_signal(signal.SIGTERM)
            assert status_of(running) == 0


def panels() -> dict[str, str]:
    """The questions of the dashboard by the titles of their panels, with what Grafana puts in for its variables."""
    found = {}
    for panel in json.loads(kit("dashboard"))["panels"]:
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "1m").replace("$job_id", EXPORTED["job_id"])
            assert "$" not in expr
            found[f"{panel['title']} {target['refId']}"] = expr
    return found


def configuration(**targets: str) -> str:
    """JSON is YAML."""
    jobs = [{"job_name": name, "static_configs": [{"targets": [at]}]} for name, at in targets.items()]
    every = {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"}
    return json.dumps({"global": every, "rule_files": ["mpmon.rules.yml"], "scrape_configs": jobs})


@contextlib.contextmanager
def scraping(folder: Path, **targets: str) -> Iterator[str]:
    """The address of a Prometheus that scrapes these, with the alert rules."""
    (folder / "prometheus.json").write_text(configuration(**targets))
    (folder / "mpmon.rules.yml").write_text(kit("alerts"))
    with listening(
        folder / "prometheus.log", program("prometheus", "prometheus"), "--config.file=prometheus.json",
        f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0",
    ) as address:  # fmt: skip
        assert becomes(lambda: is_ready(address))
        yield address


def is_ready(address: str) -> bool:
    """It listens before it has read what it has stored."""
    ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    try:
        with ask(f"http://{address}/-/ready", timeout=LONGEST_S) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False


def test_every_panel_of_the_dashboard_has_data(exported: str, tmp_path: Path) -> None:
    with scraping(tmp_path, mpmon=exported) as address:
        shown: dict[str, list[Mapping[str, Any]]] = {}

        # A scrape that takes too long makes every series stale till the next one: what was shown is not asked for again.
        def filled() -> bool:
            shown.update(
                {title: asked(address, "/api/v1/query", query=expr)["result"] for title, expr in panels().items()}
            )
            return all(shown.values())

        assert becomes(filled), [title for title, series in shown.items() if not series]
        (finding,) = shown["Who blocks the others A"]
        assert EXPORTED.items() <= finding["metric"].items()
        assert not {"__name__", "job", "instance"} & finding["metric"].keys()
        assert offered(address) == [EXPORTED["job_id"]]
        (group,) = asked(address, "/api/v1/rules")["groups"]
        assert becomes(lambda: {rule["health"] for rule in rules(address)} == {"ok"}), group


def rules(address: str) -> list[Mapping[str, Any]]:
    (group,) = asked(address, "/api/v1/rules")["groups"]
    return group["rules"]


def offered(address: str) -> list[str]:
    """The values of the variable, as Grafana asks for them."""
    (query,) = (row["query"] for row in json.loads(kit("dashboard"))["templating"]["list"] if row["type"] == "query")
    series, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()  # type: ignore[union-attr]
    return asked(address, f"/api/v1/label/{label}/values", **{"match[]": series})


def test_a_job_that_is_exported_twice_is_shown_once(exported: str, tmp_path: Path) -> None:
    with scraping(tmp_path, port=exported, again=exported) as address:
        both = 'count(mpmon_finding_info{job_id="cats"})'
        assert becomes(
            lambda: [row["value"][1] for row in asked(address, "/api/v1/query", query=both)["result"]] == ["2"]
        )
        assert len(asked(address, "/api/v1/query", query=panels()["Who blocks the others A"])["result"]) == 1
        (spins,) = asked(address, "/api/v1/query", query=panels()["GPUs that only spin A"])["result"]
        assert spins["value"][1] in ("0", "1")


def test_node_exporter_reads_the_file(exported: str, tmp_path: Path) -> None:
    del exported
    node_exporter = program("prometheus-node-exporter", "prometheus-node-exporter")
    folder = tmp_path / "text"
    with listening(
        tmp_path / "exporter.log", node_exporter, "--web.listen-address=127.0.0.1:0", "--collector.disable-defaults",
        "--collector.textfile", f"--collector.textfile.directory={folder}",
    ) as address:  # fmt: skip
        ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

        def page() -> str:
            with ask(f"http://{address}/metrics", timeout=LONGEST_S) as answer:
                return answer.read().decode()

        assert becomes(lambda: 'mpmon_verdict{job_id="cats",verdict="hung"} 1' in page()), page()
        assert "node_textfile_scrape_error 0" in page()
        # Each name that stands in the file, with its labels, is on the page: a file that is not taken whole is not taken.
        series = {line.rpartition(" ")[0] for line in (folder / "job.prom").read_text().splitlines() if line[0] != "#"}
        assert len(series) > len(panels())
        assert {name.partition("{")[0] for name in series} <= set(re.findall(r"^(mpmon_\w+)", page(), re.MULTILINE))
