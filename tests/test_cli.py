"""The command line, as a user's shell sees it: what it prints where, and with which exit status."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

import mpmon as mpmon_package
from mpmon import __version__, manual
from mpmon.codec import encode
from mpmon.commands import COMMANDS, explain
from mpmon.diagnosis.remarks import TOPICS
from mpmon.diagnosis.rules import RULES
from mpmon.errors import refusal
from mpmon.probes.machine import Machine
from mpmon.probes.stacks import find_py_spy
from tests.builders import process
from tests.hangs.expected import HOME as CASES
from tests.live.running import REPOSITORY, Program, py_spies
from tests.patience import becomes, ran, rest_of
from tests.probes.ras_server import ras, says

HUNG = str(CASES / "dl-getitem-sleep" / "recording.jsonl.gz")
HEALTHY = str(CASES / "ok-between-epochs" / "recording.jsonl.gz")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

Answer = subprocess.CompletedProcess[str]


def mpmon(*arguments: str, **more: object) -> Answer:
    """Run it to its end."""
    return ran([sys.executable, "-m", "mpmon", *arguments], **{"stdin": subprocess.DEVNULL, "env": ENVIRONMENT, **more})


def one_sentence(answer: Answer, status: int) -> str:
    """What is said on standard error, and nothing else anywhere."""
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr
    assert answer.returncode == status, answer.stderr
    (line,) = answer.stderr.splitlines()
    assert line.startswith("mpmon: ")
    return line


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A program that sleeps."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def zombie() -> Iterator[int]:
    """A program that has ended and is not collected."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    yield child
    os.waitpid(child, 0)


# Asking about itself


def test_version() -> None:
    answer = mpmon("--version")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"mpmon {__version__}\n", "")


def test_help_names_every_command_and_option() -> None:
    answer = mpmon("--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    for word in ("demo", "doctor", "explain", "--once", "--for", "--json", "--record", "--replay", "--stacks", "--up"):
        assert word in answer.stdout


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_asking_about_itself_loads_nothing_heavy(option: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "mpmon", option]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in answer.stderr.splitlines()}
    assert "mpmon" in loaded
    assert loaded & {"textual", "rich", "torch", "numpy", "pynvml", "psutil", "msgspec"} == set()


def test_explain_lists_every_rule_every_remark_and_every_page() -> None:
    answer = mpmon("explain")
    assert answer.returncode == 0
    causes, topics, pages = (part.splitlines()[1:] for part in answer.stdout.split("\n\n"))
    assert [line.split()[0] for line in causes] == sorted(rule.CAUSE for rule in RULES)
    assert [line.split()[0] for line in topics] == sorted(topic.TOPIC for topic in TOPICS)
    assert tuple(line.split()[0] for line in pages) == manual.TOPICS


@pytest.mark.parametrize("cause", [*(rule.CAUSE for rule in RULES[:2]), TOPICS[0].TOPIC])
def test_explain_prints_the_page_of_a_rule_or_a_topic(cause: str) -> None:
    answer = mpmon("explain", cause)
    assert answer.returncode == 0
    assert answer.stdout.startswith(f"{cause}\n")
    assert "What to do" in answer.stdout


def test_explain_prints_a_page_of_the_manual() -> None:
    environment = {**ENVIRONMENT, "COLUMNS": "80"}
    assert mpmon("explain", "rights", env=environment).stdout == f"rights\n\n{manual.page('rights')}\n"


def test_explain_of_what_is_no_cause() -> None:
    assert "no manual page 'gremlins'" in one_sentence(mpmon("explain", "gremlins"), 2)


@pytest.mark.parametrize(("said", "meant"), [("fork", "fork-lock, fork-openmp"), ("worker-stock", "worker-stuck")])
def test_explain_of_what_is_nearly_a_cause(said: str, meant: str) -> None:
    assert meant in one_sentence(mpmon("explain", said), 2)


@pytest.mark.parametrize(("said", "meant"), [("nccl", ": flight-recorder, "), ("slow", "how-it-decides")])
def test_explain_of_a_word_names_pages_that_have_it(said: str, meant: str) -> None:
    told = one_sentence(mpmon("explain", said), 2)
    assert meant in told.partition("Pages that have this word")[2]


@pytest.mark.parametrize("topic", ["collective-mismatch", "screen"])
@pytest.mark.parametrize(("columns", "most"), [(None, 80), ("200", 80), ("50", 50)])
def test_a_page_has_80_columns_or_as_few_as_the_user_says(topic: str, columns: str | None, most: int) -> None:
    without = {name: value for name, value in ENVIRONMENT.items() if name != "COLUMNS"}
    told = mpmon("explain", topic, env=without if columns is None else {**without, "COLUMNS": columns}).stdout
    assert most - 10 < max(map(len, told.splitlines())) <= most


@pytest.mark.parametrize("width", [30, 80])
def test_a_page_in_other_lines_has_the_same_words_and_tables(width: int) -> None:
    for pages in explain.sections().values():
        for page in pages.values():
            narrow = explain.filled(page, width)
            assert narrow.split() == page.split()
            kept = [line for line in page.splitlines() if line.startswith(("|", "    ", "---"))]
            assert set(kept) <= set(narrow.splitlines())


def test_lists_stand_in_columns() -> None:
    for listed in mpmon("explain").stdout.split("\n\n"):
        assert len({len(line) - len(line.split(maxsplit=1)[1]) for line in listed.splitlines()[1:]}) == 1
    told = mpmon("--help").stdout.splitlines()
    assert len({line.index(does) for line in told for _, does in COMMANDS.values() if line.endswith(does)}) == 1


def test_gc_in_a_folder_that_is_not_there() -> None:
    assert "no folder /nowhere" in one_sentence(mpmon("gc", "/nowhere"), 2)


# Flight Recorders


@pytest.mark.parametrize("source", ["https://localhost:1", "http://localhost", "/nowhere/rank0.json", "/dev/null"])
def test_what_is_no_flight_recorder(source: str, sleeper: int) -> None:
    answer = mpmon(str(sleeper), "--once", "--flight-recorder", source)
    assert source in one_sentence(answer, 2)


def test_a_flight_recorder_that_is_a_pickle(sleeper: int, tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": []}))
    told = one_sentence(mpmon(str(sleeper), "--flight-recorder", str(tmp_path)), 2)
    assert "is a pickle, which mpmon never loads" in told
    assert "make JSON of it" in told


def test_a_flight_recorder_of_a_recording() -> None:
    told = one_sentence(mpmon("--replay", HUNG, "--flight-recorder", "http://localhost:1"), 2)
    assert "do not go together" in told


def test_a_flight_recorder_that_does_not_answer_is_only_a_fact() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with Program("works.py").hear("ready") as program:
        answer = mpmon(str(program.pid), "--once", "--for", "3", "--json", "--flight-recorder", address)
    (probe,) = [row for row in json.loads(answer.stdout)["probes"] if row["name"] == "flight recorder"]
    assert (probe["ok"], probe["problem"]) == (False, f"{address}: Connection refused")
    assert (answer.returncode, answer.stderr) == (0, "")


# NCCL's RAS


@pytest.mark.parametrize("place", ["4100", "localhost", ":28028", "host:0", "host:65536", "a b:1", "host:x", "h\n:1"])
def test_what_is_no_place_of_nccl_ras(place: str) -> None:
    answer = mpmon("4100", "--once", "--nccl-ras", place)
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[-1].endswith("is not HOST:PORT; put a PID before --nccl-ras")


def test_nccl_ras_of_a_recording() -> None:
    assert "do not go together" in one_sentence(mpmon("--replay", HUNG, "--nccl-ras"), 2)


def test_nccl_is_not_asked_about_a_job_that_works() -> None:
    with ras(says(b"")) as (address, heard), Program("works.py").hear("ready") as program:
        answer = mpmon(str(program.pid), "--once", "--for", "3", "--json", "--nccl-ras", str(address))
    assert (answer.returncode, answer.stderr, heard) == (0, "", [])
    assert "NCCL RAS" not in [row["name"] for row in json.loads(answer.stdout)["probes"]]


# Reports


def test_a_report_of_a_hang_has_status_3() -> None:
    answer = mpmon("--replay", HUNG, "--once")
    assert (answer.returncode, answer.stderr) == (3, "")
    assert answer.stdout.startswith("HUNG for ")
    assert "job.py:20" in answer.stdout


def test_a_report_of_a_healthy_job_has_status_0() -> None:
    answer = mpmon("--replay", HEALTHY, "--once")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("HEALTHY")


def test_ascii() -> None:
    assert mpmon("--replay", HUNG, "--once", "--ascii").stdout.isascii()


def test_without_a_terminal_it_is_one_report_and_says_so() -> None:
    answer = mpmon("--replay", HUNG)
    assert answer.returncode == 3
    assert answer.stdout == mpmon("--replay", HUNG, "--once").stdout
    assert answer.stderr == "mpmon: standard output is not a terminal, so this is one report (--once).\n"


REPORT = {
    "schema", "mpmon", "host", "taken_at", "watched_s", "root", "verdict", "since", "findings", "unchecked", "processes",
    "gpus", "gpu_processes", "queues", "ipc_exports", "shared_memory", "probes",
}  # fmt: skip
FINDING = {"cause", "certainty", "summary", "suspects", "waiters", "evidence", "advice"}
SUSPECT = {"pid", "dead", "role", "rank", "thread", "tid", "frame"}
PROCESS = {
    "pid", "ppid", "start_time", "role", "rank", "local_rank", "world_size", "name", "cmdline", "state", "cpu_percent",
    "rss_bytes", "pss_bytes", "threads",
}  # fmt: skip


@pytest.fixture(scope="module")
def document() -> dict[str, object]:
    answer = mpmon("--replay", HUNG, "--once", "--json")
    assert (answer.returncode, answer.stderr) == (3, "")
    return json.loads(answer.stdout)


def test_the_document_has_all_that_was_promised(document: dict[str, list[dict[str, object]]]) -> None:
    assert set(document) >= REPORT
    assert document["schema"] == "mpmon.report/1"
    assert set(document["root"]) == {"pid", "start_time"}
    finding = document["findings"][0]
    assert set(finding) >= FINDING
    (suspect,) = finding["suspects"]  # type: ignore[misc]
    assert set(suspect) >= SUSPECT
    assert set(suspect["frame"]) == {"function", "file", "line"}
    assert set(finding["waiters"][0]) == {"pid", "role", "waits_for"}  # type: ignore[index]
    assert all(set(row) >= PROCESS for row in document["processes"])


def test_what_is_not_known_is_null_and_not_left_out(document: dict[str, list[dict[str, object]]]) -> None:
    assert all(set(row) == {"name", "ok", "seconds", "problem"} for row in document["probes"])


def test_moments_are_in_utc(document: dict[str, str]) -> None:
    for name in ("taken_at", "since"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", document[name])


def test_json_without_once_is_a_document_a_line() -> None:
    answer = mpmon("--replay", HUNG, "--json")
    documents = [json.loads(line) for line in answer.stdout.splitlines()]
    assert (answer.returncode, answer.stderr) == (0, "")
    assert len(documents) >= 5
    assert {row["schema"] for row in documents} == {"mpmon.report/1"}
    assert [row["taken_at"] for row in documents] == sorted(row["taken_at"] for row in documents)
    assert documents[-1]["verdict"] == "hung"


# Wrong usage


@pytest.mark.parametrize(
    "arguments",
    [["seven"], ["0"], ["-5"], ["7", "8"], ["--wrong"], ["7", "--for", "0"], ["7", "--for", "soon"], ["7", "--stacks", "some"],
     ["7", "--interval", "-1"], ["--onc", "7"]],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_has_status_2(arguments: list[str]) -> None:
    answer = mpmon(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "Traceback" not in answer.stderr
    assert "mpmon: error: " in answer.stderr


def test_a_pid_and_a_recording() -> None:
    assert "do not go together" in one_sentence(mpmon("7", "--replay", HUNG), 2)


def test_recording_a_recording(tmp_path: Path) -> None:
    assert "do not go together" in one_sentence(mpmon("--replay", HUNG, "--record", str(tmp_path / "copy")), 2)


@pytest.mark.parametrize("text", ["٣٤", "²", "1_0"])
def test_a_pid_in_other_digits(text: str) -> None:
    answer = mpmon(text, "--once")
    assert answer.returncode == 2
    assert "is neither a pid nor one of" in answer.stderr


@pytest.mark.parametrize("command", [("{pid}", "--once"), ("doctor", "{pid}")])
def test_a_thread_of_the_kernel(command: tuple[str, ...]) -> None:
    thread = next((process for process in Machine().processes() if process.is_kernels), None)
    if thread is None:
        pytest.skip("no thread of the kernel is seen here")
    answer = mpmon(*(word.format(pid=thread.pid) for word in command))
    assert answer.returncode == (1 if command[0] == "doctor" else 2)
    assert "a kernel thread" in answer.stdout + answer.stderr


def test_a_program_without_a_name() -> None:
    assert "the name of the program to run is empty" in one_sentence(mpmon("run", "--", ""), 2)


def test_a_package_that_is_missing(tmp_path: Path, sleeper: int) -> None:
    (tmp_path / "msgspec.py").write_text("raise ModuleNotFoundError(name='msgspec')")
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"}
    line = one_sentence(mpmon(str(sleeper), "--once", env=environment), 1)
    assert "the package msgspec, which mpmon needs, is not installed" in line
    assert "-m pip install msgspec" in line


def test_a_module_of_our_own_that_is_missing_is_a_defect() -> None:
    assert refusal(ModuleNotFoundError(name="mpmon.none")) is None
    assert refusal(ModuleNotFoundError(name="pynvml")).remedy.endswith("-m pip install nvidia-ml-py")  # type: ignore[union-attr]


WITHOUT_PROC = ("unshare", "--mount", "--propagation", "private", "sh", "-c", 'umount -l /proc && exec "$@"', "sh")


@pytest.mark.parametrize(
    "arguments", [("1", "--once"), (), ("doctor",), ("gc",), ("demo", "--once"), ("run", "--", "true")]
)
def test_without_proc(arguments: tuple[str, ...]) -> None:
    if subprocess.run([*WITHOUT_PROC, "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounts may not be taken away here, in a namespace of their own")
    answer = subprocess.run(
        [*WITHOUT_PROC, sys.executable, "-m", "mpmon", *arguments], check=False, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    assert "/proc is not mounted" in one_sentence(answer, 4)


def test_a_recording_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no file" in one_sentence(mpmon("--replay", str(tmp_path / "nothing"), "--once"), 2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x1f\x8b\x08 broken", "a recording"),
        (b"hello", "is not a recording"),
        (b"", "is not a recording"),
        (b'{"schema":"other/1","mpmon":"1","started_at":1.0}\n', "has the format other/1"),
        (os.urandom(5000), "is not a recording"),
    ],
    ids=["cut-gzip", "text", "empty", "foreign", "random"],
)
def test_a_recording_that_is_none(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert words in one_sentence(mpmon("--replay", str(path), "--once"), 2)


def test_a_recording_is_never_overwritten(tmp_path: Path, sleeper: int) -> None:
    path = tmp_path / "precious"
    path.write_text("mine")
    assert "exists already" in one_sentence(mpmon(str(sleeper), "--once", "--record", str(path)), 2)
    assert path.read_text() == "mine"


# What cannot be told, and what fails


def test_a_pid_that_does_not_exist() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    words = one_sentence(mpmon(str(gone.pid), "--once"), 4)
    assert "there is no process" in words
    assert str(gone.pid) in words


def test_a_pid_that_cannot_exist() -> None:
    assert "there is no process" in one_sentence(mpmon("999999999", "--once"), 4)
    assert "there is no process" in one_sentence(mpmon(str(2**70), "--once"), 4)


def test_its_own_pid() -> None:
    shell = ["/bin/sh", "-c", 'exec "$0" -m mpmon $$ --once', sys.executable]
    answer = subprocess.run(shell, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert "is mpmon itself: it is not part of a job." in one_sentence(answer, 2)


def test_the_pid_of_a_program_that_mpmon_starts(tmp_path: Path) -> None:
    (tmp_path / "py-spy").symlink_to("/bin/sh")
    with subprocess.Popen(
        [tmp_path / "py-spy", "-c", "echo ready; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as helper:
        assert helper.stdout
        assert helper.stdout.readline() == "ready\n"
        told = one_sentence(mpmon(str(helper.pid), "--once"), 2)
        helper.kill()
    assert f"pid {helper.pid} is py-spy, which mpmon itself starts" in told


def test_a_record_of_a_pid_that_does_not_exist_leaves_no_file(tmp_path: Path) -> None:
    one_sentence(mpmon("999999999", "--once", "--record", str(tmp_path / "facts")), 4)
    assert list(tmp_path.iterdir()) == []


def test_a_zombie(zombie: int) -> None:
    answer = mpmon(str(zombie), "--once", "--for", "2")
    assert answer.returncode == 4
    assert "Traceback" not in answer.stderr
    assert "zombie" in answer.stdout + answer.stderr


def test_a_disk_that_is_full_has_status_1(tmp_path: Path, sleeper: int) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    answer = mpmon(str(sleeper), "--once", "--for", "1", "--record", str(tmp_path / "facts"), preexec_fn=small_files)
    assert "the recording stopped" in one_sentence(answer, 1)


# A live job


def test_a_live_job(tmp_path: Path) -> None:
    with Program("works.py").hear("ready") as program:
        path = tmp_path / "facts.jsonl.gz"
        answer = mpmon(str(program.pid), "--once", "--for", "3", "--interval", "0.3", "--record", str(path))
        assert (answer.returncode, answer.stderr) == (0, "")
        assert answer.stdout.startswith("HEALTHY: pid ")
        again = mpmon("--replay", str(path), "--once")
        assert again.stdout == answer.stdout


HANGS = "import sys, threading; print('ready', flush=True); sys.stdin.readline(); threading.Event().wait()"
WORKS = "import time\nprint('ready', flush=True)\nwhile True: sum(range(10_000)); time.sleep(0.01)"


@pytest.mark.parametrize(("program", "status", "verdict"), [(HANGS, 4, "UNKNOWN: "), (WORKS, 0, "HEALTHY: ")])
def test_a_look_that_is_too_short_to_tell_a_hang(program: str, status: int, verdict: str) -> None:
    """The hang begins just before."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdin
        assert job.stdout
        assert job.stdout.readline() == "ready\n"
        job.stdin.write("\n")
        job.stdin.flush()
        answer = mpmon(str(job.pid), "--once", "--for", "2")
        job.kill()
    if "HUNG" in answer.stdout:
        pytest.skip("this machine was too busy to look for so short a time")
    assert (answer.returncode, answer.stdout.partition("pid")[0]) == (status, verdict)
    assert (
        ("has stood still for" in answer.stdout)
        == ("only a longer observation can tell" in answer.stdout)
        == answer.stdout.endswith(" (--for SECONDS observes longer)\n")
        == (status == 4)
    )


def reader_gone(*arguments: str) -> Answer:
    """The answer when nobody reads it."""
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, writing)
        return mpmon(*arguments, stdout=writing)


@pytest.mark.parametrize("arguments", [["--once"], ["--once", "--json"], ["--json"]], ids=" ".join)
def test_a_reader_that_has_gone_is_no_news(arguments: list[str]) -> None:
    answer = reader_gone("--replay", HUNG, *arguments)
    assert (answer.returncode, answer.stderr) == (128 + signal.SIGPIPE, "")


def test_head() -> None:
    command = f"{sys.executable} -m mpmon --replay {HUNG} --json | head -1"
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert len(answer.stdout.splitlines()) == 1
    assert answer.stderr == ""


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_ctrl_c(tmp_path: Path, rounds: int) -> None:
    path = tmp_path / "facts.jsonl"
    with Program("works.py").hear("ready") as program:
        process = subprocess.Popen(
            [sys.executable, "-m", "mpmon", str(program.pid), "--once", "--for", "60", "--record", str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
            preexec_fn=hear_ctrl_c,  # noqa: PLW1509  a shell that runs the tests in its background has it ignored
        )  # fmt: skip
        until(lambda: path.exists() and path.read_bytes().count(b"\n") > rounds)
        process.send_signal(signal.SIGINT)
        stdout, stderr = rest_of(process)
        assert (process.returncode, stdout, stderr) == (128 + signal.SIGINT, "", "")
        assert py_spies(program.pid) == []
        assert mpmon("--replay", str(path), "--once").returncode in (0, 4)


def test_ctrl_c_in_a_destructor_is_not_lost() -> None:
    code = """
import sys
from mpmon import __main__, cli

class Gone:
    def __del__(self):
        raise KeyboardInterrupt

def run(arguments):
    Gone()
    while True:
        pass

cli.run = run
sys.exit(__main__.main(["4100"]))
"""
    answer = ran(
        [sys.executable, "-c", code], env=ENVIRONMENT,
        preexec_fn=hear_ctrl_c,  # a shell that runs the tests in its background has it ignored
    )  # fmt: skip
    assert (answer.returncode, answer.stdout, answer.stderr) == (128 + signal.SIGINT, "", "")


def hear_ctrl_c() -> None:
    """As in a shell's foreground."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    assert becomes(holds)


# As another user


NOBODY = 65534


@pytest.fixture(scope="module")
def nobody() -> Iterator[list[str]]:
    """A command that runs mpmon as somebody who owns nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("needs setpriv")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        _copy_for_all(Path(folder))
        become = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", f"PYTHONPATH={folder}"]
        become.append(f"PATH={folder}/bin:/usr/bin:/bin")
        for python in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
            trial = [*become, python, "-c", "import msgspec, psutil, mpmon"]
            if subprocess.run(trial, capture_output=True, cwd="/", check=False).returncode == 0:
                yield [*become, python, "-m", "mpmon"]
                return
        pytest.skip("another user may run no Python like this one")


def _copy_for_all(folder: Path) -> None:
    """mpmon and what it needs, where everybody may read it."""
    for package in (mpmon_package, msgspec, psutil):
        source = Path(package.__file__ or "").parent
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "bin").mkdir()
    shutil.copy(find_py_spy() or "/bin/false", folder / "bin" / "py-spy")


def as_nobody(command: list[str], *arguments: str) -> Answer:
    return ran([*command, *arguments], cwd="/")


def test_another_user_sees_the_processes_and_learns_why_not_more(nobody: list[str]) -> None:
    with Program("pool_worker.py").hear("child") as program:
        answer = as_nobody(nobody, str(program.pid), "--once", "--for", "2")
        assert answer.returncode == 4, answer.stdout
        assert "Traceback" not in answer.stderr
        assert str(program.pids["child"]) in answer.stdout
        assert "run mpmon as root" in answer.stdout + answer.stderr


def test_another_user_gets_the_same_facts_as_json(nobody: list[str]) -> None:
    with Program("pool_worker.py").hear("child") as program:
        answer = as_nobody(nobody, str(program.pid), "--once", "--json", "--for", "2")
        found = json.loads(answer.stdout)
        assert (answer.returncode, found["verdict"], found["findings"]) == (4, "unknown", [])
        assert program.pids["child"] in [row["pid"] for row in found["processes"]]
        assert all("environment" not in row for row in found["processes"])


def test_encode_is_what_the_shell_reads() -> None:
    """One line a row, whatever is in it."""
    assert b"\n" not in encode(process(name="two\nlines"))
