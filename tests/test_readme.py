"""README and manual tell the truth: their commands parse, their links lead somewhere, and they know every option."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path
from typing import NoReturn

import pytest

from mpmon import cli, manual
from mpmon.commands.explain import sections
from tests.gpu import confirmed

HOME = Path(__file__).parents[1]
README = (HOME / "README.md").read_text(encoding="utf-8")
CI = (HOME / ".ci" / "run").read_text(encoding="utf-8")

FENCED = re.compile(r"^```sh\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
BLOCKS: list[str] = FENCED.findall(README)
INDENTED = re.compile(r"^    mpmon .*$", flags=re.MULTILINE)
"""A command in a page of the manual."""

GUIDE = "\n\n".join([README, *map(manual.page, manual.TOPICS)])
COMMANDS = [line for block in BLOCKS for line in block.splitlines()] + INDENTED.findall(GUIDE)
SPANS: list[str] = re.findall(r"`([^`\n]+)`", FENCED.sub("", GUIDE))

LINKING = ("README.md", "CONTRIBUTING.md", "screenshots/README.md")
LINKS = [
    (name, target)
    for name in LINKING
    for target in re.findall(r"\]\(([^)\s]+)\)", (HOME / name).read_text(encoding="utf-8"))
]


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
    """What README and manual give to mpmon, in blocks and in prose."""
    in_prose = [span.replace("PID", "4100") for span in SPANS if span.startswith("mpmon ")]
    commands = [command for line in [*COMMANDS, *in_prose] for command in simple_commands(line)]
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


def test_they_show_how_to_call_mpmon() -> None:
    assert len(calls_of_mpmon()) > 30


@pytest.mark.parametrize("arguments", [call for call in calls_of_mpmon() if call[-1:] != ["--help"]], ids=shlex.join)
def test_a_command_parses(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    options = understood(arguments, monkeypatch)

    if arguments[:1] == ["explain"] and options.topic:
        assert any(options.topic in pages for pages in sections().values())


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

    assert sorted(option for option in known if option not in GUIDE) == []


@pytest.mark.parametrize(("name", "target"), LINKS)
def test_a_link_leads_to_a_file(name: str, target: str) -> None:
    assert (HOME / name).parent.joinpath(target).is_file()


def test_it_is_a_front_page() -> None:
    assert len(README.splitlines()) <= 150
    assert len(re.findall(r"^!\[", README, flags=re.MULTILINE)) == 1


def test_it_lists_the_pages_of_the_manual() -> None:
    """`MPMON_UPDATE_GOLDENS=1` writes the table anew."""
    head = "| topic | content |\n|---|---|\n"
    rows = ((topic, manual.page(topic).splitlines()[0]) for topic in manual.TOPICS)
    table = head + "".join(f"| [{topic}](mpmon/manual/{topic}.md) | {told} |\n" for topic, told in rows)
    if os.environ.get("MPMON_UPDATE_GOLDENS") == "1":
        written = re.sub(re.escape(head) + r"(?:\|.*\n)*", lambda _: table, README)
        (HOME / "README.md").write_text(written, encoding="utf-8")

    assert f"\n{table}\n" in (HOME / "README.md").read_text(encoding="utf-8")


def test_it_says_whether_a_gpu_has_confirmed_anything() -> None:
    assert ("No GPU has confirmed" in README) == (confirmed.entries() == [confirmed.NOTHING])


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
