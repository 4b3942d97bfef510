"""A key of a dictionary is found by its hash, as the interpreter finds it."""

from __future__ import annotations

import ctypes
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.probes.files import Proc
from mpmon.probes.interpreter.hashes import SECRET_BYTES, Hashes, find
from mpmon.probes.interpreter.modules import names_of_all
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.runtime import Runtime, runtime_of
from mpmon.probes.memory import Memory

SECRET = bytes((ctypes.c_char * SECRET_BYTES).in_dll(ctypes.pythonapi, "_Py_HashSecret"))
HASHES = Hashes(SECRET, sys.version_info[:2])


@given(st.text(st.characters(max_codepoint=127), max_size=40))
def test_hashes_are_those_of_the_interpreter(text: str) -> None:
    assert HASHES.of(text.encode()) == hash(text) & (1 << 64) - 1


@pytest.mark.parametrize("size", [1, 7, 200, 50_000])
def test_each_key_is_found_and_no_other(size: int) -> None:
    things = {f"name {number}": number for number in range(size)}
    things.pop("name 3", None)  # leaves a slot that is passed over
    with Memory(Proc(), os.getpid()) as memory:
        runtime = runtime_of(Proc(), os.getpid(), memory)
        objects = Objects(memory, runtime.layout)
        table = objects.table(id(things))
        assert table
        assert runtime.hashes
        assert runtime.hashes.fit(objects, table)
        found = {name: find(objects, table, name.encode(), HASHES.of(name.encode())) for name in list(things)[:100]}
        assert found == {name: id(things[name]) for name in found}
        for absent in (b"name 3", b"name", b""):
            assert find(objects, table, absent, HASHES.of(absent)) is None


def test_modules_are_found_with_and_without_their_hashes() -> None:
    with Memory(Proc(), os.getpid()) as memory:
        runtime = runtime_of(Proc(), os.getpid(), memory)
        objects = Objects(memory, runtime.layout)
        other = Hashes(b"another secret..", runtime.layout.version)
        for hashes in (runtime.hashes, None, other):
            known = Runtime(runtime.address, runtime.layout, hashes)
            assert names_of_all(objects, known, (b"os", b"not there")) == [id(vars(os))]
