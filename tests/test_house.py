"""The house rules that no other tool checks."""

from __future__ import annotations

import ast
import gzip
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.diagnosis.remarks import TOPICS, Topic
from mpmon.diagnosis.rules import RULES, Rule

HOUSE = Path(__file__).parent.parent
LONG_FILE, LONG_FUNCTION = 400, 60
PRIVATE = tuple(f"/{name}/" for name in ("root", "work"))
"""Folders of machines on which this was made; a file that names one would not work elsewhere."""


def own_files() -> list[Path]:
    """Every file of the repository, whether it is already committed or not."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=HOUSE, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a checkout of git")
    paths = [HOUSE / name.decode() for name in listed.split(b"\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def sources() -> list[Path]:
    return [path for path in own_files() if path.suffix == ".py"]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length of every function of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_what_grows_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Growth is a decision, so it is shown and not forbidden."""
    told = []
    for path in sources():
        name = path.relative_to(HOUSE)
        length = len(path.read_text(encoding="utf-8").splitlines())
        told += [f"{name}: {length} lines"] if length > LONG_FILE else []
        long = functions(path) if length > LONG_FUNCTION else ()
        told += [f"{name}: {function} has {lines} lines" for function, lines in long if lines > LONG_FUNCTION]
    with capsys.disabled():
        print("", *told, sep="\n  ")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CAUSE)
def test_a_rule_has_a_manual_page(rule: Rule) -> None:
    page = rule.__doc__ or ""
    assert page.strip().endswith(".")
    for heading in ("What it looks like:", "What to do:"):
        assert heading in page


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.TOPIC)
def test_a_topic_has_a_manual_page(topic: Topic) -> None:
    page = topic.__doc__ or ""
    assert page.strip().endswith(".")
    for heading in ("What it looks like:", "What to do:"):
        assert heading in page


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.TOPIC)
def test_a_topic_has_a_test(topic: Topic) -> None:
    module = topic.__name__.rpartition(".")[2]  # type: ignore[attr-defined]
    tests = "".join(path.read_text(encoding="utf-8") for path in (HOUSE / "tests" / "diagnosis").glob("test_*.py"))
    assert f"{module}.TOPIC" in tests or f'"{topic.TOPIC}"' in tests


def test_files_of_the_package_that_are_no_python_go_into_the_wheel() -> None:
    listed = re.search(r"^mpmon = (\[.*\])$", (HOUSE / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed
    packed = {path for pattern in ast.literal_eval(listed[1]) for path in (HOUSE / "mpmon").glob(pattern)}
    others = {path for path in own_files() if path.is_relative_to(HOUSE / "mpmon") and path.suffix != ".py"}
    assert sorted(others - packed) == []


def test_no_file_names_a_folder_of_the_machine_it_was_made_on() -> None:
    found = []
    for path in own_files():
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        found += [f"{path.relative_to(HOUSE)} names {name}" for name in PRIVATE if name.encode() in content]
    assert found == []


# The door


LOOKS = frozenset({
    "open", "lstat", "stat", "statvfs", "listdir", "scandir", "walk", "fwalk", "readlink", "access",
    "path.exists", "path.lexists", "path.isdir", "path.isfile", "path.islink", "path.ismount", "path.getsize",
    "path.getmtime", "path.realpath", "path.samefile",
})  # fmt: skip
"""Of `os`: what asks for a file by its path."""

LAST_WORDS = frozenset(name.rpartition(".")[2] for name in LOOKS)

OF_PATHS = frozenset({"exists", "is_file", "is_dir", "is_symlink", "is_fifo", "iterdir", "read_text", "rglob"})
"""Methods of `pathlib.Path` that do so, and of nothing else here."""

WAYS_ROUND = frozenset({"pathlib", "glob", "shutil", "io", "fileinput"})
"""Modules that do so too."""

WITHOUT_THE_DOOR = {
    "probes/door.py": "it is the door",
    "probes/files.py": "the kernel's /proc",
    "probes/machine.py": "the kernel's /proc",
    "probes/rights.py": "the kernel's /proc",
    "probes/outsiders.py": "the kernel's /proc",
    "probes/cgroups.py": "the kernel's control groups",
    "probes/native/standing.py": "the kernel's /proc",
    "probes/nvml/suspended.py": "the kernel's /sys",
    "probes/nvml/helper.py": "/dev/null, and whether the driver has devices",
    "probes/users.py": "/etc/passwd",
    "probes/stacks.py": "the py-spy that came with mpmon",
    "probes/memory.py": "the kernel's /proc: memory by address",
    "probes/kernel/holdings.py": "descriptors of other processes, which have no path",
    "probes/kernel/waited.py": "descriptors of other processes, which have no path",
    "probes/aside/client.py": "the kernel's /proc",
    "probes/standstill.py": "the kernel's /proc",
    "probes/aside/helper.py": "/dev/null",
    "probes/file_servers.py": "descriptors of other processes, and mount points in their roots: their server is asked on purpose",
    "probes/ipc/pipes.py": "descriptors of other processes, which have no path",
    "probes/flight_recorder/files.py": "what the user has named on the command line",
    "probes/own.py": "mpmon's own, which the user has named",
    "probes/flight_recorder/servers.py": "the kernel's /proc",
    "commands/config.py": "settings of mpmon's own",
    "commands/settings.py": "settings of mpmon's own",
    "commands/doctor.py": "a new file that the user has named",
    "commands/export.py": "files of mpmon's own, to be printed",
    "commands/explain.py": "nothing but the size of the terminal",
    "commands/gc.py": "a folder that the user has named",
    "commands/live.py": "the kernel's /proc, and a recording that the user has named",
    "commands/run.py": "the output of the job: a new file that the user has named",
    "commands/serve.py": "a recording that the user has named",
    "commands/watch.py": "a recording that the user has named",
    "console.py": "/dev/null",
    "demo/handshake.py": "a pipe of the demo's own",
    "demo/processes.py": "the kernel's /proc, and names in /dev/shm of the demo's own job",
    "demo/running.py": "what the demo's own job has written",
    "demo/scenes/stopped.py": "the kernel's /proc",
    "demo/supervisor.py": "a pipe and files of the demo's own",
    "doctor/__init__.py": "the kernel's /proc",
    "doctor/check.py": "the kernel's /proc",
    "doctor/gpu/case.py": "the PATH of the user",
    "doctor/gpu/memory.py": "the kernel's /proc: links are read and not followed",
    "doctor/gpu/sharing.py": "the kernel's /proc, and what the doctor's own job has in /dev/shm",
    "doctor/gpu/talking.py": "what the doctor's own job writes",
    "doctor/machine.py": "the kernel's /proc, and how large /dev/shm is",
    "doctor/process.py": "the kernel's /proc: links are read and not followed",
    "doctor/rights.py": "the kernel's /proc: links are read and not followed",
    "doctor/stacks.py": "the kernel's /proc",
    "export/outlets.py": "a file for metrics that the user has named",
    "jobs.py": "nothing but the size of the terminal",
    "launch.py": "the program that the user has named",
    "manual/__init__.py": "pages of mpmon's own",
    "nodes/here.py": "the kernel's /proc",
    "nodes/transports/__init__.py": "the PATH of the user",
    "private.py": "new files of mpmon's own",
    "serve/server.py": "a page of mpmon's own",
    "session/recording.py": "a recording that the user has named",
    "session/recordings.py": "recordings that the user has named",
    "session/watch.py": "a recording that the user has named",
    "shim/places.py": "it runs inside the job, with its rights, and trusts a folder only after a look at its owner",
    "shim/rights.py": "it runs inside the job, with its rights: the kernel's /proc",
    "shim/transfers.py": "it runs inside the job, with its rights: what torch has made in /dev/shm",
    "shim/writer.py": "it runs inside the job, with its rights: files of its own",
    "tui/app.py": "the current folder of the user, by its name",
    "tui/export.py": "new files of mpmon's own",
}
"""Files below `mpmon` that ask for others by path, and which."""


def looks_of(text: str) -> Iterator[str]:
    """Where some code asks for a file by its path."""
    tree = ast.parse(text)
    conditions = (node for node in ast.walk(tree) if isinstance(node, ast.If))
    types = {node for row in conditions if ast.unparse(row.test) == "TYPE_CHECKING" for node in ast.walk(row)}
    for node in ast.walk(tree):
        if node in types:
            continue
        if isinstance(node, ast.Attribute) and (
            node.attr in OF_PATHS or (node.attr in LAST_WORDS and ast.unparse(node).removeprefix("os.") in LOOKS)
        ):
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"
        elif isinstance(node, ast.ImportFrom) and (node.module == "os" or node.module in WAYS_ROUND):
            yield f"from {node.module}"
        elif isinstance(node, ast.Import):
            yield from (f"import {name.name}" for name in node.names if name.name in WAYS_ROUND)


def test_only_those_who_may_go_past_the_door() -> None:
    """Files that a job may have put there are asked for in `mpmon.probes.door` only, which does not trust them."""
    package = HOUSE / "mpmon"
    looks = {
        str(path.relative_to(package)): sorted(set(looks_of(path.read_text(encoding="utf-8"))))
        for path in package.rglob("*.py")
    }
    assert {name: found for name, found in looks.items() if found and name not in WITHOUT_THE_DOOR} == {}
    assert {name for name in WITHOUT_THE_DOOR if not looks.get(name)} == set(), "an exception that nobody needs"


@pytest.mark.parametrize(
    "code",
    ["open(x)", "with open(x) as f: pass", "os.open(x, 0)", "os.path.isdir(x)", "map(os.stat, xs)", "from os import stat",
     "import pathlib", "path.read_text()", "from pathlib import Path", "os.listdir(x)"],
)  # fmt: skip
def test_what_goes_past_the_door_is_noticed(code: str) -> None:
    assert list(looks_of(code))
    assert not list(looks_of("if TYPE_CHECKING:\n    from pathlib import Path"))
    assert not list(looks_of("os.fstat(x); os.pread(x, 1, 0); os.close(x); os.stat_result; opened(x); self.stat(x)"))
