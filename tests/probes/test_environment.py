"""The environment of one process, for one who asks."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.probes import environment
from mpmon.probes.environment import EnvironmentReader, variables
from mpmon.probes.files import Proc
from mpmon.probes.identity import Identity
from mpmon.probes.processes import ProcessTable
from tests.probes.tree import BOOTED_AT, Tree, TreeProc
from tests.sleepers import row, sleeper


def read(proc: Proc, pid: int, **changes: object) -> environment.Environment:
    process = next(p for p in ProcessTable(proc, pid).look(BOOTED_AT + 2000.0)[0] if p.pid == pid)
    return EnvironmentReader(proc, Identity(proc))(msgspec.structs.replace(process, **changes))


def test_all_variables_of_a_real_process() -> None:
    proc = Proc()
    with sleeper(env={"ONE": "1", "EMPTY": "", "TWO": "a=b"}) as child:
        found = EnvironmentReader(proc, Identity(proc))(row(child.pid))
    assert {name: found.variables[name] for name in ("ONE", "EMPTY", "TWO")} == {"ONE": "1", "EMPTY": "", "TWO": "a=b"}
    assert found.problem == ""


def test_another_process_with_the_pid_is_not_shown(tree: Tree) -> None:
    tree.add(4100)
    assert read(TreeProc(tree.root), 4100).variables == {"HOME": "/home/ada"}
    assert read(TreeProc(tree.root), 4100, start_time=BOOTED_AT + 1.0) == ({}, "it has ended")


def test_what_is_too_long_is_cut_and_told(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.add(4100)
    monkeypatch.setattr(environment, "LIMIT", 10)
    assert read(TreeProc(tree.root), 4100) == ({"HOME": "/home"}, "cut after 0 MiB")


def test_one_that_may_not_be_read_is_a_reason(tree: Tree) -> None:
    tree.add(4100)
    (tree.root / "4100/environ").unlink()
    assert read(TreeProc(tree.root), 4100) == ({}, "cannot be read: no such file or directory")


def test_of_two_with_one_name_the_first_counts() -> None:
    assert variables(b"A=1\0A=2\0nothing\0=x\0") == {"A": "1"}


@given(st.binary(max_size=200))
def test_any_bytes_are_variables(text: bytes) -> None:
    assert all(name and "=" not in name for name in variables(text))
