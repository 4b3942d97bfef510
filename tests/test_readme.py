"""The README tells the truth: its commands parse, its links lead somewhere, and it knows every cause."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path
from typing import NoReturn

import pytest

from mpmon import cli
from mpmon.commands.show import EXIT_STATUS
from mpmon.diagnosis.remarks import TOPICS
from mpmon.diagnosis.rules import RULES
from tests.gpu import confirmed

HOME = Path(__file__).parents[1]
README = (HOME / "README.md").read_text(encoding="utf-8")
CI = (HOME / ".ci" / "run").read_text(encoding="utf-8")

PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
"""All but the fenced blocks."""

BLOCKS: list[str] = re.findall(r"^```sh\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
SPANS: list[str] = re.findall(r"`([^`\n]+)`", PROSE)


class Parsed(Exception):
    """The arguments were understood."""


def simple_commands(text: str) -> list[list[str]]:
    """The words of each command in a line of shell: parts of lists and pipes apart, comments left out."""
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set("|&;"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def calls_of_mpmon() -> list[list[str]]:
    """What the README gives to mpmon, in blocks and in prose."""
    lines = [line for block in BLOCKS for line in block.splitlines()]
    in_prose = [span.replace("PID", "4100") for span in SPANS if span.startswith("mpmon ")]
    commands = [command for line in [*lines, *in_prose] for command in simple_commands(line)]
    return [command[1:] for command in commands if command[0].rpartition("/")[2] == "mpmon"]


def understood(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """What the program's own parser makes of them; it goes no further."""
    parse_args = argparse.ArgumentParser.parse_args
    options: list[argparse.Namespace] = []

    def parse_only(parser: argparse.ArgumentParser, given: list[str]) -> NoReturn:
        options.append(parse_args(parser, given))
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    with pytest.raises(Parsed):
        cli.run(arguments)
    return options[0]


def test_the_readme_shows_how_to_call_mpmon() -> None:
    assert len(calls_of_mpmon()) > 10


@pytest.mark.parametrize("arguments", [call for call in calls_of_mpmon() if call != ["--help"]], ids=shlex.join)
def test_a_command_parses(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    options = understood(arguments, monkeypatch)

    if arguments[:1] == ["explain"] and options.cause:
        assert options.cause in {rule.CAUSE for rule in RULES} | {topic.TOPIC for topic in TOPICS}


def test_an_option_in_the_prose_exists(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.run(["--help"])
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))

    told = {span.split()[0] for span in SPANS if span.startswith("--")}

    assert told - known == {"--quick"}, "only the benchmarks have --quick"


def test_every_option_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.run(["--help"])
    known = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", capsys.readouterr().out, flags=re.MULTILINE))

    assert sorted(option for option in known if option not in README) == []


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)\s]+)\)", PROSE))
def test_a_link_leads_to_a_file(target: str) -> None:
    assert (HOME / target).is_file()


TABLES = {
    "| cause | what it is |\n|---|---|\n": {rule.CAUSE: rule.__doc__ or "" for rule in RULES},
    "| remark | what it is |\n|---|---|\n": {topic.TOPIC: topic.__doc__ or "" for topic in TOPICS},
}
"""What `mpmon explain` lists, by the heads of the tables here."""


@pytest.mark.parametrize("head", TABLES)
def test_every_cause_and_remark_is_told_as_explain_tells_it(head: str) -> None:
    """`MPMON_UPDATE_GOLDENS=1` writes the tables anew."""
    rows = {name: page.strip().splitlines()[0] for name, page in TABLES[head].items()}
    table = head + "".join(f"| {name} | {page} |\n" for name, page in sorted(rows.items()))
    if os.environ.get("MPMON_UPDATE_GOLDENS") == "1":
        written = (HOME / "README.md").read_text(encoding="utf-8")
        written = re.sub(re.escape(head) + r"(?:\|.*\n)*", lambda _: table, written)
        (HOME / "README.md").write_text(written, encoding="utf-8")

    assert f"\n{table}\n" in (HOME / "README.md").read_text(encoding="utf-8")


def test_what_is_said_of_gpus_is_what_files_say() -> None:
    """`MPMON_UPDATE_GOLDENS=1` writes these rows anew."""
    if os.environ.get("MPMON_UPDATE_GOLDENS") == "1":
        written = (HOME / "README.md").read_text(encoding="utf-8")
        rows = "".join(f"{row}\n" for row in confirmed.rows())
        written = re.sub(rf"(?:^{re.escape(confirmed.BEGIN)}.*\n)+", lambda _: rows, written, flags=re.MULTILINE)
        (HOME / "README.md").write_text(written, encoding="utf-8")

    lines = (HOME / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith(confirmed.BEGIN)] == confirmed.rows()


def test_the_exit_statuses_are_those_of_the_program() -> None:
    rows = {int(status): words for status, words in re.findall(r"^\| (\d) \| (.+) \|$", PROSE, flags=re.MULTILINE)}

    assert "hung" in rows[EXIT_STATUS["hung"]]
    assert "could not tell" in rows[EXIT_STATUS["unknown"]]
    assert "no hang" in rows[EXIT_STATUS["healthy"]]
    assert "slow" in rows[EXIT_STATUS["slow"]]


def test_the_first_screen_has_two_commands_and_the_second_is_what_ci_runs() -> None:
    first, second = (block.splitlines() for block in BLOCKS[:2])
    (try_it,), (develop,) = first, second
    install, run_tests = simple_commands(develop)

    assert simple_commands(try_it)[-1] == [".venv/bin/mpmon", "demo"]
    assert install == [".venv/bin/pip", "install", "-e", ".[dev]"]
    assert run_tests == [".venv/bin/python", "-m", "pytest"]
    in_ci = [command for line in CI.splitlines() if line.startswith('"$bin/') for command in simple_commands(line)]
    assert ["$bin/python", *run_tests[1:]] in in_ci
    assert any(command[0] == "$bin/pip" and command[-2:] == install[-2:] for command in in_ci)


def test_ci_can_be_run() -> None:
    assert os.access(HOME / ".ci" / "run", os.X_OK)
