"""`mpmon completion bash|zsh|fish`: a script for the shell, generated from the parsers of all commands."""

from __future__ import annotations

import argparse
from importlib import import_module

from mpmon.commands import COMMANDS, options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.shells import Call, Option, Takes


def run(arguments: list[str]) -> int:
    """Print the script or, when that script calls back with `JOBS`, the running jobs."""
    from mpmon.shells import JOBS, SHELLS

    if arguments == [JOBS]:
        return _jobs()
    given = parser().parse_args(arguments)

    print(SHELLS[given.shell](calls()), end="")
    return 0


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(
        prog="mpmon completion", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Print a completion script for a shell.",
        epilog='bash, in ~/.bashrc:                  eval "$(mpmon completion bash)"\n'
        'zsh, in ~/.zshrc after compinit:     eval "$(mpmon completion zsh)"\n'
        "fish, in ~/.config/fish/config.fish: mpmon completion fish | source",
    )  # fmt: skip
    made.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    return made


def _jobs() -> int:
    """One job a line: its PID, a tab, and its command."""
    from mpmon import jobs
    from mpmon.printable import command_line

    for job in jobs.running_jobs():
        print(f"{job.root_pid}\t{command_line(job.cmdline)[:60]}")
    return 0


def calls() -> list[Call]:
    """Every call of mpmon, as its parser describes it."""
    made = {name: import_module(f"mpmon.commands.{name}").parser() for name in COMMANDS}
    return [_call("", "", options.program()), *(_call(name, COMMANDS[name][1], made[name]) for name in COMMANDS)]


def _call(name: str, does: str, parser: argparse.ArgumentParser) -> Call:
    from mpmon.shells import Call

    actions = options.actions(parser)
    argument = next((action for action in actions if not action.option_strings), None)
    known = tuple(_option(action) for action in actions if action.option_strings)
    return Call(name, does, known, "nothing" if argument is None else _takes(argument))


def _option(action: argparse.Action) -> Option:
    from mpmon.shells import Option

    return Option(tuple(action.option_strings), action.help or "", _takes(action))


def _takes(action: argparse.Action) -> Takes:
    """From its choices, else from its placeholder in the help."""
    if options.is_switch(action):
        return "nothing"
    if action.choices:
        return tuple(action.choices)
    words: dict[str, Takes] = {
        "FILE": "files",
        "SOURCE": "files",
        "PID": "pids",
        "SCENE": _scenes(),
        "TOPIC": _topics(),
    }
    return words.get(str(action.metavar), "anything")


def _scenes() -> tuple[str, ...]:
    from mpmon import demo

    return tuple(scene.name for scene in demo.scenes())


def _topics() -> tuple[str, ...]:
    """Names of all pages."""
    from mpmon.commands import explain

    return tuple(topic for pages in explain.sections().values() for topic in pages)
