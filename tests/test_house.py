"""The house rules that no other tool checks."""

from __future__ import annotations

import ast
import gzip
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mpmon.diagnosis.remarks import TOPICS, Topic
from mpmon.diagnosis.rules import RULES, Rule
from tests.nodes import recorded
from tests.nodes.recorded import last
from tests.scores.replay import hangs

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
        told += [
            f"{name}: {function} has {lines} lines" for function, lines in functions(path) if lines > LONG_FUNCTION
        ]
    with capsys.disabled():
        print("", *told, sep="\n  ")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CAUSE)
def test_a_rule_has_a_manual_page(rule: Rule) -> None:
    page = rule.__doc__ or ""
    assert page.strip().endswith(".")
    for heading in ("What it looks like:", "What to do:"):
        assert heading in page


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CAUSE)
def test_a_rule_wins_in_a_recording(rule: Rule) -> None:
    wins = any(stuck.winner(RULES) == rule.CAUSE for hang in hangs() for stuck in hang.stuck)
    assert wins or rule.CAUSE in on_one_of_several_machines()


@cache
def on_one_of_several_machines() -> frozenset[str]:
    """The causes that are found in recordings of one machine of a larger job."""
    found = (last(path).diagnosis.findings for case in recorded.CASES for path in recorded.recordings(case))
    return frozenset(finding.cause for findings in found for finding in findings)


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

WAYS_ROUND = frozenset({"pathlib", "glob", "shutil", "io", "fileinput"})
"""Modules that do so too."""

WITHOUT_THE_DOOR = {
    "door.py": "it is the door",
    "files.py": "the kernel's /proc",
    "machine.py": "the kernel's /proc",
    "rights.py": "the kernel's /proc",
    "outsiders.py": "the kernel's /proc",
    "cgroups.py": "the kernel's control groups",
    "nvml/suspended.py": "the kernel's /sys",
    "nvml/helper.py": "/dev/null, and whether the driver has devices",
    "users.py": "/etc/passwd",
    "stacks.py": "the py-spy that came with mpmon",
    "memory.py": "the kernel's /proc: memory by address",
    "kernel/holdings.py": "descriptors of other processes, which have no path",
    "kernel/waited.py": "descriptors of other processes, which have no path",
    "aside/client.py": "the kernel's /proc",
    "standstill.py": "the kernel's /proc",
    "aside/helper.py": "/dev/null",
    "file_servers.py": "descriptors of other processes, and mount points in their roots: their server is asked on purpose",
    "ipc/pipes.py": "descriptors of other processes, which have no path",
    "flight_recorder/files.py": "what the user has named on the command line",
    "own.py": "mpmon's own, which the user has named",
    "flight_recorder/servers.py": "the kernel's /proc",
}
"""Files below `mpmon/probes` that ask for others by path, and which."""


def looks_of(text: str) -> Iterator[str]:
    """Where some code asks for a file by its path."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and ast.unparse(node).removeprefix("os.") in LOOKS:
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"
        elif isinstance(node, ast.ImportFrom) and (node.module == "os" or node.module in WAYS_ROUND):
            yield f"from {node.module}"
        elif isinstance(node, ast.Import):
            yield from (f"import {name.name}" for name in node.names if name.name in WAYS_ROUND)


def test_probes_go_through_the_door() -> None:
    """Files that a job may have put there are asked for in `mpmon.probes.door` only, which does not trust them."""
    probes = HOUSE / "mpmon" / "probes"
    found = {
        f"{name}: {look}"
        for path in sorted(probes.rglob("*.py"))
        if (name := str(path.relative_to(probes))) not in WITHOUT_THE_DOOR
        for look in looks_of(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "code",
    ["open(x)", "with open(x) as f: pass", "os.open(x, 0)", "os.path.isdir(x)", "map(os.stat, xs)", "from os import stat",
     "import pathlib", "from pathlib import Path", "os.listdir(x)"],
)  # fmt: skip
def test_what_goes_past_the_door_is_noticed(code: str) -> None:
    assert list(looks_of(code))
    assert not list(looks_of("os.fstat(x); os.pread(x, 1, 0); os.close(x); os.stat_result; opened(x); self.stat(x)"))
