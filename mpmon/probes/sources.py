"""The parsed source of Python files that a process runs.

The source must be the one that runs: a file written after its process began is not read. It is still untrusted, so it
is read through `door`, bounded, and parsed but never run. Parsed files are cached by their file system metadata: many
processes run the same file.
"""

from __future__ import annotations

import ast
import builtins
import os
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

from mpmon.probes import door
from mpmon.probes.files import Proc
from mpmon.probes.stat import Stat, boot_time

LARGEST_SOURCE = 1 << 20
"""Most bytes read of a file."""

CLOCK_S = 1.0
"""Precision, in seconds, of the machine's start time: proc_stat(5)."""

MOST_FORKS = 64
"""Most generations of forks followed."""

DEEPEST = 150
"""Most levels of nested expressions and statements: who follows them calls itself for each."""

LONGEST_ANSWER = 2
"""Most statements, with a docstring, of a function that only returns something."""

MOST_SOURCES = 32
"""Most parsed files kept."""

Place: TypeAlias = "tuple[str, int]"
"""File and line."""

Functions: TypeAlias = "dict[str, ast.FunctionDef | ast.AsyncFunctionDef]"

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
"""What has a body of its own."""

LOOP = (ast.While, ast.For, ast.AsyncFor)


class Source:
    """One parsed file."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    @cached_property
    def functions(self) -> Functions:
        """The functions and methods, by name."""
        return {
            row.name: row for row in ast.walk(self.tree) if isinstance(row, (ast.FunctionDef, ast.AsyncFunctionDef))
        }

    def functions_at(self, line: int) -> Functions:
        """The same as code at a line means them: of methods of one name, that of its own class."""
        around = (row for row in ast.walk(self.tree) if isinstance(row, ast.ClassDef) and spans(row, line))
        own = [row for one in around for row in one.body if isinstance(row, (ast.FunctionDef, ast.AsyncFunctionDef))]
        return {**self.functions, **{row.name: row for row in own}}

    @cached_property
    def bound_once(self) -> dict[str, ast.expr]:
        """The variables and attributes that the whole file binds in a single place, with what it binds them to, and the short
        functions, with what they return.
        """
        found: dict[str, list[ast.expr | None]] = {}
        for row in ast.walk(self.tree):
            for name, value in bindings(row):
                found.setdefault(name, []).append(value)
        return {name: values[0] for name, values in found.items() if len(values) == 1 and values[0] is not None}

    def is_fixed(self, name: str) -> bool:
        """Whether a name is that of a function, a class or a module of the file, one that is built in, or that of a constant."""
        return self.defines(name) or isinstance(self.bound_once.get(name), ast.Constant)

    def defines(self, name: str) -> bool:
        """Whether a name is that of a function, a class or a module of the file, or one that is built in."""
        return name in self._defined or hasattr(builtins, name)

    @cached_property
    def _defined(self) -> frozenset[str]:
        nodes = list(ast.walk(self.tree))
        imported = (row for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for row in node.names)
        made = (node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)))
        return frozenset((*(row.asname or row.name.partition(".")[0] for row in imported), *made))


def running_sources(proc: Proc, pid: int, files: Iterable[str]) -> dict[str, Source]:
    """The sources of these files, whole paths as the process sees them; those that cannot be read, or have changed since the
    program began, are left out.
    """
    began = _began(proc, pid)
    found = {file: _parsed(proc, pid, file, began) for file in dict.fromkeys(files)}
    return {file: source for file, source in found.items() if source}


def spans(node: ast.AST, line: int) -> bool:
    """Whether a line belongs to the node."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last


def _began(proc: Proc, pid: int) -> float:
    """When the program that a process runs began, seconds since the epoch: a fork runs what its parent has read."""
    row = Stat.read(proc, pid)
    for _ in range(MOST_FORKS):
        above = Stat.read(proc, row.ppid) if row and row.forked else None
        if above is None:
            break
        row = above
    return row.started_at(boot_time(proc)) if row else 0.0


_sources: dict[tuple[int, int, int, int], Source | None] = {}
"""By device, inode, moment of the last change and size."""


def _parsed(proc: Proc, pid: int, file: str, began: float) -> Source | None:
    try:
        with door.Found(door.seen_by(proc, pid, file), door.FILE) as source:
            info = source.info
            if info.st_size > LARGEST_SOURCE or info.st_mtime > began + CLOCK_S:
                return None
            which = info.st_dev, info.st_ino, info.st_mtime_ns, info.st_size
            if which not in _sources:
                if len(_sources) >= MOST_SOURCES:
                    _sources.clear()
                _sources[which] = _source(os.pread(source.descriptor(), LARGEST_SOURCE, 0))
            return _sources[which]
    except OSError:
        return None


def _source(text: bytes) -> Source | None:
    try:
        with warnings.catch_warnings():
            # An invalid escape in the job's source is not mpmon's to complain of.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return None if _is_too_deep(tree) else Source(tree)


def _is_too_deep(tree: ast.Module) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def bindings(row: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a node binds itself, each with its value; `None` where that is not one expression's."""
    if isinstance(row, (ast.FunctionDef, ast.AsyncFunctionDef)):
        last = row.body[-1]
        yield row.name, last.value if isinstance(last, ast.Return) and len(row.body) <= LONGEST_ANSWER else None
    elif isinstance(row, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and row.value is not None:
        for target in row.targets if isinstance(row, ast.Assign) else (row.target,):
            yield from _pairs(target, row.value)
    elif isinstance(row, (ast.AugAssign, ast.For, ast.AsyncFor, ast.comprehension)):
        yield from _pairs(row.target, None)
    elif isinstance(row, ast.withitem) and row.optional_vars is not None:
        yield from _pairs(row.optional_vars, None)
    elif isinstance(row, ast.Delete):
        yield from (pair for target in row.targets for pair in _pairs(target, None))
    elif name := _bound_name(row):
        yield name, None


def _bound_name(row: ast.AST) -> str | None:
    if isinstance(row, ast.arg):
        return row.arg
    if isinstance(row, ast.alias):
        return row.asname or row.name.partition(".")[0]
    return row.name if isinstance(row, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.ClassDef)) else None


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    """The names in a target, each with its part of the value."""
    if isinstance(target, (ast.Tuple, ast.List)):
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else ()
        for at, one in enumerate(target.elts):
            yield from _pairs(one, parts[at] if parts else None)
    elif isinstance(target, (ast.Name, ast.Attribute)):
        yield target.id if isinstance(target, ast.Name) else target.attr, value
