"""Shell completion scripts: the same calls for bash, zsh and fish.

The scripts ask for the running jobs with `mpmon completion pids`, which answers a line a job: PID, tab, command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Takes = tuple[str, ...] | Literal["files", "pids", "anything", "nothing"]
"""The words an argument may be, or what kind of thing it is."""


class Option(NamedTuple):
    """One option of a call."""

    names: tuple[str, ...]
    help: str
    takes: Takes


class Call(NamedTuple):
    """A command with its options and its one argument; without a name, mpmon itself."""

    name: str
    help: str
    options: tuple[Option, ...]
    argument: Takes


JOBS = "pids"
"""The argument with which a script requests the running jobs; internal."""

PIDS = f"mpmon completion {JOBS} 2>/dev/null"


# bash


def bash(calls: Sequence[Call]) -> str:
    """For `eval "$(mpmon completion bash)"`."""
    names = "|".join(call.name for call in calls if call.name)
    return "\n".join(
        [
            "_mpmon() {",
            '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} call=""',
            f"    if ((COMP_CWORD > 1)); then case ${{COMP_WORDS[1]}} in {names}) call=${{COMP_WORDS[1]}};; esac; fi",
            '    case "$call $before" in',
            *(f"        {line}" for call in calls for line in _bash_values(call)),
            "    esac",
            '    case "$call" in',
            *(f"        {line}" for call in calls for line in _bash_words(call, calls)),
            "    esac",
            "}",
            "complete -F _mpmon mpmon\n",
        ]
    )


def _bash_values(call: Call) -> Iterator[str]:
    for option in call.options:
        if option.takes != "nothing":
            patterns = "|".join(f'"{call.name} {name}"' for name in option.names)
            yield f"{patterns}) {_bash_fill(option.takes)} return;;"


def _bash_words(call: Call, calls: Sequence[Call]) -> Iterator[str]:
    options = " ".join(name for option in call.options for name in option.names)
    others = f'mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -W "{_names(calls)}" -- "$word");'
    yield f'"{call.name}")'
    yield f'    if [[ $word == -* ]]; then mapfile -t COMPREPLY < <(compgen -W "{options}" -- "$word"); return; fi'
    yield f"    {_bash_fill(call.argument)}" + ("" if call.name else f" ((COMP_CWORD == 1)) && {others}")
    yield "    ;;"


def _bash_fill(takes: Takes) -> str:
    if takes in ("anything", "nothing"):
        return "COMPREPLY=();"
    if takes == "files":
        return 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word");'
    words = f"$({PIDS} | cut -f1)" if takes == "pids" else " ".join(takes)
    return f'mapfile -t COMPREPLY < <(compgen -W "{words}" -- "$word");'


# zsh


def zsh(calls: Sequence[Call]) -> str:
    """For a file `_mpmon` on the fpath, or `eval "$(mpmon completion zsh)"` after compinit."""
    named = [call for call in calls if call.name]
    return "\n".join(
        [
            "#compdef mpmon",
            "_mpmon_pids() {",
            "    local -a jobs",
            f'    jobs=("${{(@f)$({PIDS})}}")',
            "    jobs=(${jobs//$'\\t'/:})",
            "    _describe -t jobs job jobs",
            "}",
            "_mpmon_first() {",
            "    _describe -t commands command commands",
            "    _mpmon_pids",
            "}",
            "_mpmon() {",
            "    local -a commands",
            "    commands=(",
            *(f"        {_quoted(f'{call.name}:{call.help}')}" for call in named),
            "    )",
            "    if (( CURRENT > 2 && ${commands[(I)${words[2]}:*]} )); then",
            "        shift words; (( CURRENT-- ))",
            "        case $words[1] in",
            *(f"            {call.name}) _arguments {_zsh_arguments(call)};;" for call in named),
            "        esac",
            "        return",
            "    fi",
            *(f"    _arguments {_zsh_arguments(call)}" for call in calls if not call.name),
            "}",
            'if [[ "$funcstack[1]" == _mpmon ]]; then _mpmon "$@"; else compdef _mpmon mpmon; fi\n',
        ]
    )


def _zsh_arguments(call: Call) -> str:
    specs = [_zsh_option(name, option) for option in call.options for name in option.names]
    if call.argument != "nothing":
        specs.append(_quoted(f"1: :{'_mpmon_first' if not call.name else _zsh_values(call.argument)}"))
    return " ".join(specs)


def _zsh_option(name: str, option: Option) -> str:
    said = option.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = "" if option.takes == "nothing" else f": :{_zsh_values(option.takes)}"
    return _quoted(f"*{name}[{said}]{value}")


def _zsh_values(takes: Takes) -> str:
    if isinstance(takes, tuple):
        return f"({' '.join(takes)})"
    return {"files": "_files", "pids": "_mpmon_pids", "anything": " ", "nothing": " "}[takes]


# fish


def fish(calls: Sequence[Call]) -> str:
    """For `mpmon completion fish | source`."""
    lines = ["complete -c mpmon -f"]
    for call in calls:
        if call.name:
            lines.append(f"complete -c mpmon -n __fish_use_subcommand -a {call.name} -d {_quoted(call.help)}")
        when = _quoted(
            f"__fish_seen_subcommand_from {call.name}"
            if call.name
            else f"not __fish_seen_subcommand_from {_names(calls)}"
        )
        lines += [f"complete -c mpmon -n {when} {_fish_option(option)}" for option in call.options]
        if call.argument not in ("nothing", "anything"):
            lines.append(f"complete -c mpmon -n {when} {_fish_values(call.argument)}")
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = "" if option.takes == "nothing" else f" {_fish_values(option.takes, required='-r')}"
    return f"{names} -d {_quoted(option.help)}{value}"


def _fish_values(takes: Takes, *, required: str = "") -> str:
    words = f"({PIDS})" if takes == "pids" else " ".join(takes) if isinstance(takes, tuple) else ""
    parts = (required, "-F" if takes == "files" else "", f"-a {_quoted(words)}" if words else "")
    return " ".join(part for part in parts if part)


def _names(calls: Sequence[Call]) -> str:
    return " ".join(call.name for call in calls if call.name)


def _quoted(text: str) -> str:
    """As one word in single quotes, which all three shells read alike when there are none inside."""
    return "'" + text.replace("'", "’") + "'"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
