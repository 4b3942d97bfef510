"""Readable names of functions: `c10d::ProcessGroupGloo::runLoop` for `_ZN4c10d16ProcessGroupGloo7runLoopEi`.

C++ symbols are demangled by `demangler`, a child process that is started for the few names that are not yet cached.
Then the parts that make them a thousand characters long are dropped: parameters, template arguments, the return type, and the
versions of the standard library's namespaces.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress

from mpmon import start
from mpmon.probes.demangler import LONGEST

LONGEST_SYMBOL = 1 << 11
"""Most characters of a symbol that is demangled."""

MOST_NAMES = 1 << 13
"""Cached symbols."""

MOST_AT_ONCE = 512
"""Symbols that are demangled at once."""

DEADLINE_S, LOOK_S = 2.0, 0.2
"""Names that have not arrived by the deadline stay mangled; and the poll interval while waiting."""

END_S = 0.2

_MANGLED = re.compile(r"_Z[A-Za-z0-9_.$]+\Z")
_OPERATOR = re.compile(r"operator\s*(<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>|\(\))")
"""Operators whose names are brackets."""
_RETURNS_FUNCTION = re.compile(r"[^()]* \([*&]")
"""`void (*f())(int)`: the name is inside the return type."""
_VERSIONS = re.compile(r"\bstd::(?:__\w*cxx\d+|__\d+|__ndk\d+|_V\d+)::")
_BEHIND = re.compile(r"(?: const| volatile| &&?| noexcept)+(?=::|\s|$)")
_STRING = "std::basic_string"
_NAMELESS = "(anonymous namespace)::"

_OPEN, _CLOSE = {"(": ")", "<": ">", "[": "]"}, {")": "(", ">": "<", "]": "["}
_SIGN = "\x01"
"""Placeholder for an operator while brackets are counted."""

_kept: dict[str, str] = {}
"""Names by symbol."""


def names_of(symbols: Iterable[str]) -> dict[str, str]:
    """The name of each of these symbols; a symbol that cannot be demangled is its own name."""
    wanted = set(symbols)
    # Short ones first: a name that crashes the demangler also loses the names behind it.
    foreign = sorted(filter(_MANGLED.match, wanted - _kept.keys()), key=len)[:MOST_AT_ONCE]
    if len(_kept) + len(foreign) > MOST_NAMES:
        _kept.clear()
    # Cached even if there is no answer or the demangler crashes, so that it is not asked again.
    _kept.update((symbol, symbol) for symbol in foreign)
    fit = [symbol for symbol in foreign if len(symbol) <= LONGEST_SYMBOL]
    for symbol, name in zip(fit, _translated(fit), strict=False):
        _kept[symbol] = short(name) if name else symbol
    return {symbol: _kept.get(symbol, symbol) for symbol in wanted}


def short(name: str) -> str:
    """A C++ name without parameters, return types and template arguments."""
    operators: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        operators.append(match[0])
        return _SIGN

    text = _OPERATOR.sub(put_aside, name.replace(_NAMELESS, ""))
    if _RETURNS_FUNCTION.match(text):
        return name
    text = _without_brackets(text)
    text = _VERSIONS.sub("std::", text).replace(_STRING, "std::string")
    text = _without_result(text)
    for operator in operators:
        text = text.replace(_SIGN, operator, 1)
    return text or name


def _without_brackets(text: str) -> str:
    """`f<int>(char) const::{lambda(int)#1}::g()` becomes `f::{lambda#1}::g`."""
    kept: list[str] = []
    depth: list[str] = []
    for letter in text:
        if letter in _OPEN:
            depth.append(letter)
        elif letter in _CLOSE:
            if depth and depth[-1] == _CLOSE[letter]:
                depth.pop()
        elif not depth:
            kept.append(letter)
    plain = "".join(kept)
    # The qualifiers that followed the parameters of an enclosing function.
    return _BEHIND.sub("", plain)


def _without_result(text: str) -> str:
    """The last word is the name, except for a conversion to a type of several words: `void f`, `A::operator unsigned int`."""
    text = text.strip()
    at = text.find("operator ")
    if at >= 0 and (at == 0 or not text[at - 1].isalnum()):
        return text[text.rfind(" ", 0, at) + 1 :]
    head = text.partition("{")[0]
    return text[head.rstrip().rfind(" ") + 1 :] if " " in head.strip() else text


def _translated(symbols: list[str]) -> list[str]:
    """As many names as arrived in time, empty where a symbol cannot be demangled."""
    if not symbols:
        return []
    lines = _answers("".join(f"{symbol}\n" for symbol in symbols).encode(), len(symbols))
    return [line.decode("utf-8", "replace") for line in lines.split(b"\n")[:-1]]


def _answers(questions: bytes, count: int) -> bytes:
    try:
        process = subprocess.Popen(
            start.command("mpmon.probes.demangler", str(os.getpid()), bare=True),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError:
        return b""
    try:
        return _heard(process, questions, count)
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)


def _heard(process: subprocess.Popen[bytes], questions: bytes, count: int) -> bytes:
    """Write and read at the same time: neither side buffers more than a pipe holds."""
    if process.stdin is None or process.stdout is None:
        return b""
    asks, answers = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(asks, False)
    heard, left, until = bytearray(), memoryview(questions), time.monotonic() + DEADLINE_S
    while heard.count(b"\n") < count and len(heard) <= count * (LONGEST + 1) and time.monotonic() < until:
        readable, writable, _ = select.select([answers], [asks] if left else [], [], LOOK_S)
        try:
            if writable:
                left = left[os.write(asks, left) :]
            piece = os.read(answers, 1 << 16) if readable else b" "
        except BlockingIOError:
            continue
        except OSError:
            break
        if not piece:
            break
        if readable:
            heard += piece
    return bytes(heard)
