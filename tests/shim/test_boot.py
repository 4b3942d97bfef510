"""How the shim starts: what it imports, where it waits, and what it leaves behind in the interpreter."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mpmon.launch import STARTUP
from tests.live.interpreters import VERSIONS, interpreters
from tests.shim.running import HOME, files, python

LOADED = "sorted(name for name in sys.modules if name.startswith('mpmon') or name in ('msgspec', 'textual', 'typing'))"


@pytest.mark.parametrize("version", VERSIONS)
def test_importing_the_shim_imports_nothing_else_of_mpmon(version: str) -> None:
    executable = interpreters().get(version)
    if executable is None:
        pytest.skip(f"there is no Python {version} here")
    code = "import sys; before = set(sys.modules); import mpmon.shim; print(sorted(set(sys.modules) - before))"
    said = python(code, executable=executable, PYTHONPATH=str(HOME))
    assert set(eval(said)) <= {"mpmon", "mpmon.shim", "__future__"}


def test_before_queues_are_imported_only_the_finder_is_there(tmp_path: Path) -> None:
    assert python(f"import sys; print({LOADED})", tmp_path) == "['mpmon_shim', 'mpmon_shim.boot']"
    assert not list(tmp_path.iterdir())


def test_an_interpreter_without_mpmon_finds_the_shim_and_nothing_else_of_it(tmp_path: Path) -> None:
    code = (
        f"import sys, multiprocessing.queues; print({LOADED}); import importlib.util as u; print(u.find_spec('mpmon'))"
    )
    # `-S`-like: the site-packages of this environment may have mpmon, so it is taken off the path.
    hidden = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]; "
        "sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f)]; "
    )
    said = python(hidden + code, tmp_path).splitlines()
    assert "mpmon_shim.queues" in said[0]
    assert "msgspec" not in said[0]
    assert said[1] == "None"


def test_a_module_keeps_its_own_loader(tmp_path: Path) -> None:
    code = (
        "import importlib.util, multiprocessing.queues as q\n"
        "same = importlib.util.find_spec(q.__name__) is q.__spec__\n"
        "print(type(q.__loader__).__name__, q.__spec__.loader is q.__loader__, same)"
    )
    assert python(code, tmp_path) == python(code) == "SourceFileLoader True True"


def test_hooks_look_like_what_they_stand_for(tmp_path: Path) -> None:
    code = (
        "import inspect, multiprocessing.queues as q\n"
        "for f in (q.Queue.put, q.Queue.get, q.JoinableQueue.put, q.SimpleQueue.put, q.SimpleQueue.get, q.Queue.__init__):\n"
        "    print(f.__name__, f.__qualname__, f.__module__, inspect.signature(f), f.__doc__)\n"
        "print(q._ForkingPickler.__name__, q._ForkingPickler.__module__, isinstance(q._ForkingPickler, type))"
    )
    assert python(code, tmp_path) == python(code)


def test_the_line_in_site_packages_is_asleep_without_its_variable(tmp_path: Path) -> None:
    code = f"import site, sys; site.addsitedir({str(STARTUP)!r}); print({LOADED})"
    more = {"PYTHONPATH": str(HOME)}
    assert python(code, **more) == "[]"
    assert (
        python(code, MPMON_SHIM="1", MPMON_RUN_DIR=str(tmp_path), **more)
        == "['mpmon', 'mpmon.shim', 'mpmon.shim.boot']"
    )


def test_one_shim_is_enough(tmp_path: Path) -> None:
    """By the variable and by hand: two ways to turn it on, under two names."""
    code = (
        "import multiprocessing.queues as q, sys; sys.path.append(%r)\n"
        "put = q.Queue.put; import mpmon.shim; print(mpmon.shim.install(), q.Queue.put is put)\n"
        "q = __import__('multiprocessing').SimpleQueue(); q.put(1)"
    )
    assert python(code % str(HOME), tmp_path) == "True True"
    assert len(files(tmp_path)) == 1


def test_it_stays_off_where_there_is_no_gil(tmp_path: Path) -> None:
    code = (
        "import sys; sys._is_gil_enabled = lambda: False; sys.stderr = sys.stdout\n"
        "import mpmon.shim; print(mpmon.shim.install())"
    )
    said = python(code, MPMON_RUN_DIR=str(tmp_path), PYTHONPATH=str(HOME))
    assert said == "mpmon: shim off: free-threaded Python is not supported\nFalse"


def test_hooks_can_be_taken_out_again(tmp_path: Path) -> None:
    code = (
        "import multiprocessing.queues as q; before = {**vars(q.Queue), 'p': q._ForkingPickler}\n"
        "import mpmon.shim; mpmon.shim.install(); from mpmon.shim import patches\n"
        "hooked = {**vars(q.Queue), 'p': q._ForkingPickler}; patches.take_all_out()\n"
        "print(hooked != before, {**vars(q.Queue), 'p': q._ForkingPickler} == before)"
    )
    assert python(code, MPMON_RUN_DIR=str(tmp_path), PYTHONPATH=str(HOME)) == "True True"


def test_where_only_parents_may_look_it_asks_the_kernel_to_let_mpmon(tmp_path: Path) -> None:
    """PR_SET_PTRACER is refused where there is no Yama, and that is no failure."""
    scope = tmp_path / "ptrace_scope"
    scope.write_text("1\n", encoding="utf-8")
    code = (
        "import sys; from mpmon.shim import rights; rights.SCOPE = %r\n"
        "rights.let_mpmon_look(); rights.let_mpmon_look(); print('ctypes' in sys.modules)\n"
        "import os; os.fork() or os._exit(0); os.wait()"
    )
    assert python(code % str(scope), PYTHONPATH=str(HOME)) == "True"
    assert python(code % "/nonexistent", PYTHONPATH=str(HOME)) == "False"


def test_old_pythons_can_read_the_file_they_run() -> None:
    """A job may start any Python, and a syntax error would be told at each start."""
    tree = ast.parse((STARTUP / "sitecustomize.py").read_text(encoding="utf-8"))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Match, ast.Nonlocal, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        assert not isinstance(node, newer)
        assert not (isinstance(node, ast.FunctionDef) and node.returns)
        assert not (isinstance(node, ast.arg) and node.annotation)
