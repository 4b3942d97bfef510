"""What a shell offers, asked of the shells themselves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil
import pytest

from mpmon import demo
from mpmon.commands import COMMANDS
from mpmon.commands.completion import calls
from mpmon.printable import command_line
from mpmon.shells import SHELLS
from tests.patience import ran
from tests.test_cli import mpmon

JOB = "4100"
STUB = f"mpmon() {{ printf '{JOB}\\ttrain.py --epochs 3\\n'; }}\n"
"""In place of the program that lists the jobs."""

DRIVERS = {
    "bash": """
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
compopt() {{ :; }}
_mpmon
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "zsh": """
_arguments() {{
    print -rl -- "$@"
    for spec; do case $spec in *:_mpmon_first) _mpmon_first;; *:_mpmon_pids) _mpmon_pids;; esac; done
}}
_describe() {{ print -rl -- "${{(P@)@[-1]}}" }}
compdef() {{ : }}
words=({words}); CURRENT=$#words
_mpmon
""",
    "fish": "complete -C {line}\n",
}


def offered(shell: str, tmp_path: Path, *words: str) -> str:
    """What the shell says can follow these words; the last one is not finished."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    quoted = " ".join(f"'{word}'" for word in words)
    line = f"'{' '.join(words)}'"
    stub = f"function mpmon; printf '{JOB}\\ttrain.py\\n'; end\n" if shell == "fish" else STUB
    # zsh decides by its caller whether it is loaded or called.
    before = "compdef() { : }\n" if shell == "zsh" else ""
    script = before + SHELLS[shell](calls()) + stub + DRIVERS[shell].format(words=quoted, line=line)
    file = tmp_path / "script"
    file.write_text(script)
    environment = {**os.environ, **dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), str(tmp_path))}
    flag = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    answer = ran([program, *flag, str(file)], env=environment)
    assert answer.stderr == ""
    return answer.stdout


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> str:
    return request.param


def test_commands_and_jobs(shell: str, tmp_path: Path) -> None:
    found = offered(shell, tmp_path, "mpmon", "")
    assert all(name in found for name in COMMANDS)
    assert JOB in found


def test_options_of_mpmon_itself(shell: str, tmp_path: Path) -> None:
    found = offered(shell, tmp_path, "mpmon", "--re")
    assert all(option in found for option in ("--replay", "--record", "--readonly"))


def test_options_of_a_command(shell: str, tmp_path: Path) -> None:
    found = offered(shell, tmp_path, "mpmon", "demo", "--l")
    assert "--list" in found
    assert "--replay" not in found


def test_scenes(shell: str, tmp_path: Path) -> None:
    assert "queue-join" in offered(shell, tmp_path, "mpmon", "demo", "q")


def test_pages_of_the_manual(shell: str, tmp_path: Path) -> None:
    assert "fork-lock" in offered(shell, tmp_path, "mpmon", "explain", "fork-")
    assert "gpu-spinning" in offered(shell, tmp_path, "mpmon", "explain", "gpu-")
    assert "how-it-decides" in offered(shell, tmp_path, "mpmon", "explain", "how")


def test_jobs_for_a_command_that_takes_one(shell: str, tmp_path: Path) -> None:
    assert JOB in offered(shell, tmp_path, "mpmon", "doctor", "")


def test_the_choices_of_an_option(shell: str, tmp_path: Path) -> None:
    assert "never" in offered(shell, tmp_path, "mpmon", "--stacks", "")


@pytest.mark.parametrize("words", [("--replay", ""), ("4100", "--record", "")], ids=" ".join)
def test_files(shell: str, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hang.jsonl.gz").touch()
    monkeypatch.chdir(tmp_path)
    assert ("_files" if shell == "zsh" else "hang.jsonl.gz") in offered(shell, tmp_path, "mpmon", *words)


def test_nothing_is_offered_where_anything_may_stand(tmp_path: Path) -> None:
    assert offered("bash", tmp_path, "mpmon", "--interval", "").strip() == ""


def test_what_is_printed_is_the_script(shell: str) -> None:
    answer = mpmon("completion", shell)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == SHELLS[shell](calls())


def test_the_jobs_that_run_here() -> None:
    with demo.start("loader") as running:
        command = command_line(psutil.Process(running.pid).cmdline())
        answer = mpmon("completion", "pids")
    assert (answer.returncode, answer.stderr) == (0, "")
    listed = dict(line.split("\t") for line in answer.stdout.splitlines())
    assert listed[str(running.pid)] == command[:60]


def test_an_unknown_shell() -> None:
    assert mpmon("completion", "tcsh").returncode == 2


def test_only_shells_are_offered_in_place_of_an_unknown_one() -> None:
    told = mpmon("completion", "tcsh").stderr
    assert "bash" in told
    assert "pids" not in told + mpmon("completion", "--help").stdout
