"""`mpmon config [options]`: the settings in effect, and where each of them comes from."""

from __future__ import annotations

import argparse
import json
import os

from mpmon.commands import options, settings
from mpmon.printable import written_out
from mpmon.probes.own import Silent, asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(arguments: list[str]) -> int:
    """Print the settings in the format of a settings file."""
    effective = vars(settings.parse(parser(), arguments))
    said, path = _said(arguments), settings.location()
    stored, problem = _stored(path)
    print(f"# {written_out(path)}{problem}")
    for name, action in settings.settable().items():
        source = "command line" if action.dest in said else "file" if action.dest in stored else "default"
        value = effective[action.dest]
        # Texts, numbers, true and false are the same in JSON and in TOML, which has no null.
        line = f"# {name} is not set" if value is None else f"{name} = {json.dumps(value)}"
        print(f"{line:<30} # {source}")
    return 0


def parser() -> argparse.ArgumentParser:
    """What this command takes: everything a file may set."""
    made = options.Parser(
        prog="mpmon config", allow_abbrev=False,
        description="The settings in effect, and where each comes from: the command line, the settings file "
        "shown, or mpmon. The output is itself a settings file.",
    )  # fmt: skip
    options.add_settings(made)
    return made


def _stored(path: str) -> tuple[dict[str, Any], str]:
    """What the file sets, and if it cannot be read, why."""
    try:
        readable = asked([path], os.access, path, os.R_OK)
        return settings.read(), "" if readable else " (there is no such file, or it cannot be read)"
    except Silent:
        return {}, " (its file system does not answer)"


def _said(arguments: list[str]) -> set[str]:
    """What the command line sets."""
    silent = parser()
    for action in options.actions(silent):
        action.default = argparse.SUPPRESS
    return set(vars(silent.parse_args(arguments)))
