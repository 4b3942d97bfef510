"""Permanent options in a file: `$XDG_CONFIG_HOME/mpmon/config.toml`.

Its names are the long options of a watching command.  The command line overrides the file, the file overrides mpmon's
defaults.
"""

from __future__ import annotations

import argparse
import os
import reprlib
from errno import ENOENT

from mpmon.commands import options
from mpmon.errors import UsageError, tell
from mpmon.probes.own import Silent, asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LONGEST = 1 << 16
"""Bytes of the file."""


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The options of a call, completed from the settings file.

    Raises:
        UsageError: something is wrong with the file.
    """
    # First without the file: an error in it must not prevent --help.
    given = parser.parse_args(arguments)
    try:
        stored = read()
    except Silent as problem:
        # A dead file server is exactly when mpmon is needed.
        tell(f"{problem} Your settings are not in effect.")
        return given
    if not stored:
        return given
    parser.set_defaults(**stored)
    return parser.parse_args(arguments)


def settable() -> dict[str, argparse.Action]:
    """The options a file may set, by name."""
    parser = options.Parser(add_help=False)
    options.add_settings(parser)
    found = {options.name(action): action for action in options.actions(parser)}
    del found["no-color"]
    return {name: found[name] for name in sorted(found)}


def arguments(given: argparse.Namespace) -> list[str]:
    """A command line that sets all settings in effect."""
    words: list[str] = []
    for name, action in settable().items():
        value = getattr(given, action.dest)
        if options.is_switch(action):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif value is not None:
            words += [f"--{name}", str(value)]
    return words


def location() -> str:
    """The file's path, whether or not it is there (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification says to ignore relative paths.
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "mpmon", "config.toml")


def read() -> dict[str, Any]:
    """What the file sets, by the parser's destination name; empty if there is no readable file.

    Raises:
        UsageError: it cannot be read, is not TOML, or sets an unknown option or an invalid value.
        Silent: its file system does not answer.
    """
    path = location()
    try:
        text = asked([path], _text, path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # Under sudo it may be another user's file; `mpmon config` shows which.
        return {}
    except OSError as problem:
        from mpmon.probes.door import Refused

        reason = f"it {problem.strerror}" if isinstance(problem, Refused) else problem.strerror
        raise UsageError(f"{path} cannot be read: {reason}.", "Make it readable, or remove it.") from problem
    if len(text) > LONGEST:
        raise UsageError(f"{path} is too long for settings.", "Correct it, or remove it.")
    known = settable()
    return {_known(known, name, path).dest: _value(known[name], name, value, path) for name, value in _toml(text, path)}


def _text(path: str) -> bytes:
    """The content of a file, truncated if long; never waits for a pipe or a device.

    Raises:
        OSError: as open(2) and read(2); it is not a regular file.
    """
    if not os.path.isabs(path):  # neither HOME nor this user's home directory exists
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), path)
    os.stat(path)  # Most users have no file; then nothing more is imported.
    from mpmon.probes.door import FILE, take_named

    descriptor = take_named(path, FILE)
    try:
        return os.read(descriptor, LONGEST + 1)
    finally:
        os.close(descriptor)


def _toml(text: bytes, path: str) -> list[tuple[str, object]]:
    from importlib import import_module

    try:
        toml: Any = import_module("tomllib")
    except ModuleNotFoundError:
        toml = _tomli(path)
    try:
        found: Mapping[str, object] = toml.loads(text.decode())
    except ValueError as problem:
        raise UsageError(f"{path} is not TOML: {problem}.", "Correct it, or remove it.") from problem
    except RecursionError as problem:
        raise UsageError(f"{path} is nested too deeply.", "Correct it, or remove it.") from problem
    return list(found.items())


def _tomli(path: str) -> Any:
    """Python 3.10 has no reader of TOML."""
    from importlib import import_module

    try:
        return import_module("tomli")
    except ModuleNotFoundError as problem:
        raise UsageError(
            f"{path} cannot be read: Python 3.10 has no TOML parser.", "Run: pip install tomli, or remove the file."
        ) from problem


def _known(known: Mapping[str, argparse.Action], name: str, path: str) -> argparse.Action:
    if name not in known:
        raise UsageError(f"{path} sets {name!r}, which is not a setting.", f"Settings are: {', '.join(known)}.")
    return known[name]


def _value(action: argparse.Action, name: str, value: object, path: str) -> object:
    """The value as the parser would have parsed it from the command line."""
    if options.is_switch(action):
        fits = isinstance(value, bool)
    else:
        fits = isinstance(value, str | int | float) and not isinstance(value, bool)
    try:
        if fits:
            return value if options.is_switch(action) else _converted(action, str(value))
    except (ValueError, argparse.ArgumentTypeError):
        fits = False
    raise UsageError(f"{path} sets {name!r} to {_shown(value)}.", f"It must be {_wanted(action)}.")


def _shown(value: object) -> str:
    """Its `repr`, bounded: tables may be nested arbitrarily deep, and numbers may have any number of digits."""
    try:
        return reprlib.repr(value)
    except ValueError:  # more digits than Python converts to text (sys.set_int_max_str_digits)
        return "a number with too many digits"


def _converted(action: argparse.Action, word: str) -> object:
    if action.choices and word not in action.choices:
        raise ValueError(word)
    return action.type(word) if callable(action.type) else word


def _wanted(action: argparse.Action) -> str:
    if options.is_switch(action):
        return "true or false"
    return f"one of: {', '.join(action.choices)}" if action.choices else f"as for {action.option_strings[0]}"
