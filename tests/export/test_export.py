"""`mpmon export` with a real job, as a shell calls it, and as Prometheus asks it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.running import Program
from tests.nodes.programs import agent_for, environment
from tests.patience import GLANCE_S, LONGEST_S, patience, status_of
from tests.test_cli import ENVIRONMENT, mpmon, one_sentence

MPMON = [sys.executable, "-m", "mpmon"]


@pytest.fixture(scope="module")
def job() -> Iterator[Program]:
    """Two processes that wait for each other."""
    with Program("lock_order.py", "fork").hear("left", "right") as program:
        yield program


@contextlib.contextmanager
def exporting(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*MPMON, "export", "--interval", "0.3", *arguments], env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
    ) as running:  # fmt: skip
        try:
            yield running
        finally:
            running.kill()


def said_within(read: object, pattern: str) -> str:
    """What is read as soon as this stands in it."""
    assert callable(read)
    text = ""
    for pause in patience(pause_s=GLANCE_S):
        if re.search(pattern, text := read(), re.MULTILINE):
            return text
        time.sleep(pause)
    raise AssertionError(text)


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def check(text: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool (Debian: prometheus)")
    answer = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout + answer.stderr) == (0, "")


@pytest.mark.live
def test_a_hang_at_a_port_and_in_a_file(job: Program, tmp_path: Path) -> None:
    file = tmp_path / "job.prom"
    with exporting(str(job.pid), "--textfile", str(file), "--listen", "0", "--on-hang", "echo $MPMON_CAUSE") as running:
        assert running.stderr
        address = running.stderr.readline().split()[-1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", address)
        ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

        def page() -> str:
            with ask(address, timeout=LONGEST_S) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=")
                return answer.read().decode()

        text = said_within(page, r'^mpmon_verdict\{.*verdict="hung"\} 1\.0$')
        assert re.search(rf'^mpmon_hang_seconds{{job_id="{job.pid}"}} [1-9]', text, re.MULTILINE)
        assert re.search(r'^mpmon_finding_info\{.*cause="lock-cycle".*\} 1\.0$', text, re.MULTILINE)
        check(text)
        said_within(lambda: text_of(file), r'verdict="hung"\} 1\.0$')
        running.send_signal(signal.SIGTERM)
        assert status_of(running) == 0
        assert running.stderr.read() == "lock-cycle\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.live
def test_it_ends_with_the_job(tmp_path: Path) -> None:
    file = tmp_path / "job.prom"
    with (
        Program("lock_order.py", "fork").hear("left", "right") as program,
        exporting(str(program.pid), "--textfile", str(file), "--job-id", "cats") as running,
    ):
        check(said_within(lambda: text_of(file), r'^mpmon_verdict\{job_id="cats"'))
        program.__exit__()
        assert status_of(running) == 0
        assert running.stderr
        assert running.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.live
def test_a_job_on_nodes(job: Program, tmp_path: Path) -> None:
    file = tmp_path / "job.prom"
    agent = str(agent_for(tmp_path, job.pid))
    variables = environment(tmp_path, "good")
    with exporting("--nodes", "good", "--agent", agent, "--textfile", str(file), **variables) as running:
        text = said_within(lambda: text_of(file), r'verdict="hung"\} 1\.0$')
        assert re.search(r'^mpmon_nodes\{.*state="answers"\} 1\.0$', text, re.MULTILINE)
        check(text)
        running.send_signal(signal.SIGTERM)
        assert status_of(running) == 0
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no export target was given"),
        (["--textfile", "/tmp/job.txt"], "does not end in .prom"),
        (["--listen", "192.0.2.1:9877"], "cannot listen on 192.0.2.1 port 9877"),
    ],
)
def test_where_to(arguments: list[str], words: str, job: Program) -> None:
    assert words in one_sentence(mpmon("export", str(job.pid), *arguments), 2)


def test_no_address() -> None:
    answer = mpmon("export", str(os.getpid()), "--listen", "host:x")
    assert answer.returncode == 2
    assert "'host:x' is not an address and a port" in answer.stderr


def test_no_such_process() -> None:
    one_sentence(mpmon("export", "4194304", "--listen", "0"), 4)


def test_without_the_package(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ModuleNotFoundError(name='prometheus_client')\n")
    variables = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}"}
    said = one_sentence(mpmon("export", str(os.getpid()), "--listen", "0", env=variables), 2)
    assert "pip install 'mpmon[prometheus]'" in said
    assert mpmon("export", "--print", "alerts", env=variables).returncode == 0
