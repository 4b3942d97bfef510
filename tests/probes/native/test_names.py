"""Names of functions for people."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpmon.probes.demangler import demangle
from mpmon.probes.native import names
from mpmon.probes.native.image import Bytes, Library, image_of
from mpmon.probes.native.names import names_of, short
from tests.probes.native.looks import only_x86_64

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

needs_libstdcxx = pytest.mark.skipif(demangle() is None, reason="there is no libstdc++.so.6")


@pytest.mark.parametrize(
    ("whole", "shortened"),
    [
        ("c10d::ProcessGroupGloo::runLoop(int)", "c10d::ProcessGroupGloo::runLoop"),
        ("void at::native::(anonymous namespace)::fill<int, std::vector<long> >(at::Tensor const&)", "at::native::fill"),
        ("c10d::f(int)::{lambda(c10::Error const&)#2}::operator()(c10::Error const&) const", "c10d::f::{lambda#2}::operator()"),
        ("std::__cxx11::basic_string<char, std::char_traits<char> >::append(char const*)", "std::string::append"),
        ("std::__1::mutex::lock()", "std::mutex::lock"),
        ("std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (A::*)(int), A*> > >::_M_run()",
         "std::thread::_State_impl::_M_run"),
        ("A::operator unsigned int() const", "A::operator unsigned int"),
        ("std::ostream& operator<< <char>(std::ostream&, char)", "operator<<"),
        ("bool operator<=> <int>(int)", "operator<=>"),
        ("A::operator->() const", "A::operator->"),
        ("operator new(unsigned long)", "operator new"),
        ("loop(int) [clone .cold]", "loop"),
        ("open[abi:cxx11](int)", "open"),
        ("non-virtual thunk to c10d::Work::wait()", "c10d::Work::wait"),
        ("void (*chosen<int>())(char)", "void (*chosen<int>())(char)"),
        ("PyEval_EvalCode", "PyEval_EvalCode"),
        ("((((", "(((("),
        ("", ""),
    ],
)  # fmt: skip
def test_what_makes_a_name_long_is_left_out(whole: str, shortened: str) -> None:
    assert short(whole) == shortened


@given(st.text("ab:<>(){}[]#&* ~,-=\x01", max_size=200) | st.text(max_size=80))
def test_a_name_may_be_anything(name: str) -> None:
    assert bool(short(name)) == bool(name)


@needs_libstdcxx
def test_symbols_are_translated_and_others_are_left() -> None:
    gloo = "_ZN4c10d16ProcessGroupGloo7runLoopEi"
    found = names_of([gloo, "main", "_Znonsense", "_Z1f" + "P" * 5000 + "i"])
    assert found[gloo] == "c10d::ProcessGroupGloo::runLoop"
    assert all(found[other] == other for other in found if other != gloo)


def bomb(size: int) -> str:
    """Each type is a function of two of the type before: a name that doubles with every ten letters."""
    text, number = "_Z1fPFvvE", 0
    while len(text) < size:
        before = f"S{DIGITS[number // 36]}{DIGITS[number % 36]}_" if number > 35 else f"S{DIGITS[number]}_"
        text += f"PFv{before}{before}E"
        number += 2
    return text


@needs_libstdcxx
def test_a_name_that_would_fill_all_memory_costs_only_itself() -> None:
    short_one, long_one = "_ZN4c10d4Work4waitEv", bomb(500)
    assert names_of([long_one, short_one]) == {short_one: "c10d::Work::wait", long_one: long_one}


def test_who_cannot_be_asked_leaves_the_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", no)
    assert names_of(["_ZN5other4nameEv"]) == {"_ZN5other4nameEv": "_ZN5other4nameEv"}


def test_without_libstdcxx_nothing_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(_: str) -> None:
        raise OSError("libstdc++.so.6: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", no)
    assert demangle() is None


@needs_libstdcxx
@settings(max_examples=10)
@given(st.lists(st.text("_ZNSPKTIELvi0123456789st", max_size=80).map("_Z".__add__), max_size=40))
def test_symbols_may_be_garbage(symbols: list[str]) -> None:
    assert names_of(symbols).keys() == set(symbols)


PARTS = """
#include <unistd.h>
#define PART __attribute__((noinline)) static int
#define FAR asm(".skip 200, 0x90");
PART slow(int *p) { *p += getppid(); FAR return *p; }
int only(int *p) { FAR return *p ? 1 : slow(p); }
PART shared(int *p) { *p -= getpid(); FAR return *p; }
int first(int *p) { FAR return *p ? 1 : shared(p); }
int second(int *p) { FAR return *p ? 2 : shared(p); }
PART called(int *p) { *p ^= getpid(); FAR return *p; }
int calls(int *p) { FAR return called(p) + 1; }
int jumps(int *p) { FAR return *p ? 3 : called(p); }
PART near(int *p) { *p |= getpid(); return *p; }
int beside(int *p) { return *p ? 4 : near(p); }
int away(int *p) { FAR return *p ? 5 : near(p); }
"""


PARTS_NAMED = {"slow": "only", "shared": None, "called": None, "near": None, "first": "first"}


@only_x86_64
def test_a_part_of_one_function_has_its_name_in_a_file_of_public_names(tmp_path: Path) -> None:
    if not (shutil.which("gcc") and shutil.which("nm")):
        pytest.skip("there is no gcc to build a library with")
    source, whole, stripped = (tmp_path / name for name in ("parts.c", "whole.so", "stripped.so"))
    source.write_text(PARTS)
    for made, option in ((whole, "-g0"), (stripped, "-s")):
        subprocess.run(
            ["gcc", "-O2", "-fPIC", "-fcf-protection=none", "-shared", option, source, "-o", made], check=True
        )
    said = subprocess.run(["nm", whole], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in said.splitlines())
    starts = {name.partition(".")[0]: int(value, 16) for value, *_, name in rows if len(value) == 16}
    text = Bytes(stripped.read_bytes())
    library = Library(image_of(text), text)
    library.find_names([starts[name] for name in PARTS_NAMED])
    assert {name: library.image.names[starts[name]] for name in PARTS_NAMED} == PARTS_NAMED


def test_no_more_names_are_kept_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MOST_NAMES", 10)
    monkeypatch.setattr(names, "_translated", lambda symbols: [""] * len(symbols))
    for number in range(40):
        names_of([f"_Z{number}"])
    assert len(names._kept) <= 10
