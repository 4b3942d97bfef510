"""The shim is a guest: what the job and others do with the same functions, modules, signals and limits goes on as without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shim.running import HOME, STARTUP, environment, files, python, queue_of


def hooked(code: str, folder: Path, **more: str) -> str:
    """What some lines print that turn the shim on by hand, so that they may look into it."""
    return python(code, MPMON_RUN_DIR=str(folder), PYTHONPATH=str(HOME), **more)


# Others who patch and import


def test_what_others_put_around_a_hook_stays_when_the_shim_goes(tmp_path: Path) -> None:
    code = (
        "import mpmon.shim, multiprocessing.queues as q; mpmon.shim.install()\n"
        "hook = q.SimpleQueue.put\n"
        "def put(self, obj): hook(self, obj + 1)\n"
        "q.SimpleQueue.put = put\n"
        "from mpmon.shim import patches; patches.take_all_out()\n"
        "queue = __import__('multiprocessing').SimpleQueue(); queue.put(1); print(queue.get(), q.SimpleQueue.put is put)"
    )
    assert hooked(code, tmp_path) == "2 True"


def test_a_method_that_was_patched_before_keeps_its_parameters(tmp_path: Path) -> None:
    code = (
        "import mpmon.shim, multiprocessing.queues as q\n"
        "own = q.SimpleQueue.put\n"
        "def put(self, obj, *, times=1): [own(self, obj) for _ in range(times)]\n"
        "q.SimpleQueue.put = put; mpmon.shim.install()\n"
        "queue = __import__('multiprocessing').SimpleQueue(); queue.put(obj='x', times=2); print(queue.get(), queue.get())"
    )
    assert hooked(code, tmp_path) == "x x"


def test_a_finder_that_asks_all_others_as_the_shims_does(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Asking:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        found = (f.find_spec(name, path, target) for f in sys.meta_path if f is not self)\n"
        "        return next((spec for spec in found if spec), None)\n"
        "sys.meta_path.insert(0, Asking())\n"
        "import multiprocessing.queues as q; print(q.SimpleQueue.put.__code__.co_filename.endswith('shim/queues.py'))"
    )
    assert python(code, tmp_path) == "True"


def test_an_import_that_is_under_way_while_the_last_hooks_come_misses_no_finder(tmp_path: Path) -> None:
    """The one after `Late` knows the module; it is asked after `Late` has imported what the shim waits for."""
    code = (
        "import sys, mpmon.shim.boot as boot; from importlib.machinery import BuiltinImporter as after\n"
        "boot.HOOKS = {'multiprocessing.queues': boot.HOOKS['multiprocessing.queues']}\n"
        "class Late:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        name == builtin and __import__('multiprocessing.queues')\n"
        "builtin = max(set(sys.builtin_module_names) - sys.modules.keys())\n"
        "sys.meta_path.insert(sys.meta_path.index(after), Late()); boot.start(); __import__(builtin)\n"
        "print('multiprocessing.queues' in sys.modules)"
    )
    assert hooked(code, tmp_path) == "True"


def test_a_loader_that_waits_for_its_module_can_be_copied(tmp_path: Path) -> None:
    code = (
        "import copy, importlib.util as u; spec = u.find_spec('multiprocessing.queues')\n"
        "print(copy.copy(spec.loader).is_package('multiprocessing.queues'))"
    )
    assert python(code, tmp_path) == "False"


def test_a_module_that_may_not_be_imported_costs_no_other_hook(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch.storage'] = None\n"
        "import mpmon.shim; mpmon.shim.install(); import multiprocessing as m; queue = m.SimpleQueue(); queue.put(1)\n"
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    with pytest.raises(AssertionError, match=r"^$"):
        hooked(code, tmp_path)
    assert queue_of(next(iter(files(tmp_path).values())), "SimpleQueue").puts == 1


STORAGE = """
class UntypedStorage:
    def _share_cuda_(self): pass
    def _new_shared_cuda(): pass
    def _release_ipc_counter_cuda(): pass
    def _expired(): pass
    def _free_weak_ref(): pass
"""


def test_a_hook_that_fails_leaves_none_anywhere_and_no_more_come(tmp_path: Path) -> None:
    """With a torch of another form, and one that looks as it should after queues that do not."""
    package = tmp_path / "torch"
    package.mkdir()
    for name, text in (("__init__", ""), ("storage", STORAGE), ("cuda", "def ipc_collect(): pass")):
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    code = (
        "import sys; sys.stderr = sys.stdout; import mpmon.shim, multiprocessing.queues as q\n"
        "put = q.Queue.put; del q.Queue._start_thread; mpmon.shim.install()\n"
        "import torch.storage, torch.cuda\n"
        "print(q.Queue.put is put, hasattr(torch.storage.UntypedStorage._share_cuda_, '__wrapped__'),\n"
        "      hasattr(torch.cuda.ipc_collect, '__wrapped__'))"
    )
    more = {"MPMON_RUN_DIR": str(tmp_path / "run"), "PYTHONPATH": f"{HOME}{os.pathsep}{tmp_path}"}
    first, second = python(code, **more).splitlines()
    assert first.startswith("mpmon: shim off: AttributeError")
    assert second == "True False False"
    (package / "storage.py").write_text("class UntypedStorage: pass", encoding="utf-8")
    code = (
        "import sys; sys.stderr = sys.stdout; import mpmon.shim, multiprocessing.queues as q; put = q.Queue.put\n"
        "mpmon.shim.install(); import torch.storage, torch.cuda; print(q.Queue.put is put)"
    )
    first, second = python(code, **more).splitlines()
    assert first.startswith("mpmon: shim off: AttributeError")
    assert second == "True"


# Exceptions, signals, limits


@pytest.mark.parametrize("kind", ["TimeoutError", "Late"])
def test_what_a_signal_handler_raises_inside_of_a_hook_reaches_the_job(kind: str, tmp_path: Path) -> None:
    """A function of C in the place of the clock, after which the handler runs in the very middle of the hook."""
    code = (
        "import functools, signal, mpmon.shim, multiprocessing as m; mpmon.shim.install(); queue = m.SimpleQueue()\n"
        "from mpmon.shim import queues\n"
        "class Late(Exception): pass\n"
        f"def ring(*_): raise {kind}\n"
        "signal.signal(signal.SIGALRM, ring)\n"
        "queues.monotonic_ns = functools.partial(signal.raise_signal, signal.SIGALRM)\n"
        "try: queue.put(1)\n"
        f"except {kind}: print('in time')"
    )
    assert hooked(code, tmp_path) == "in time"


def test_an_exception_that_another_thread_sends_reaches_the_job(tmp_path: Path) -> None:
    code = (
        "import ctypes, functools, threading, mpmon.shim, multiprocessing as m; mpmon.shim.install()\n"
        "queue = m.SimpleQueue(); from mpmon.shim import queues\n"
        "class Stop(Exception): pass\n"
        "queues.monotonic_ns = functools.partial(ctypes.pythonapi.PyThreadState_SetAsyncExc,\n"
        "    ctypes.c_ulong(threading.get_ident()), ctypes.py_object(Stop))\n"
        "try: queue.put(1)\n"
        "except Stop: print('stopped')"
    )
    assert hooked(code, tmp_path) == "stopped"


def test_what_fails_in_a_hook_is_no_failure_of_the_job(tmp_path: Path) -> None:
    code = (
        "import mpmon.shim, multiprocessing as m; mpmon.shim.install(); queue = m.SimpleQueue()\n"
        "from mpmon.shim import queues; queues.monotonic_ns = lambda: None\n"
        "queues.monotonic_ns = queues.monotonic_ns.__code__.co_consts.__len__\n"
        "queue.put(1); queues.monotonic_ns = None; queue.put(2); print(queue.get(), queue.get())"
    )
    assert hooked(code, tmp_path) == "1 2"


def test_a_limit_on_the_length_of_files_ends_no_job(tmp_path: Path) -> None:
    """Where SIGXFSZ is not ignored, it would."""
    code = (
        "import resource, signal, sys; sys.stderr = sys.stdout; import multiprocessing as m\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "queue = m.SimpleQueue(); queue.put(1); print(queue.get())"
    )
    first, second = python(code, tmp_path).splitlines()
    assert first.startswith("mpmon: shim off in pid ")
    assert "File too large" in first
    assert second == "1"
    assert not list(tmp_path.iterdir())


def test_no_folder_is_made_for_others(tmp_path: Path) -> None:
    """A system without /dev/shm, or without the runtime folder that the environment names, stays so."""
    missing, own = tmp_path / "missing", tmp_path / "own"
    code = (
        f"from mpmon.shim import places; places.default_folders = lambda *_: ({str(missing / 'mpmon')!r}, {str(own)!r})\n"
        "print(places.run_folder())"
    )
    assert python(code, PYTHONPATH=str(HOME)) == str(own)
    assert not missing.exists()


def test_a_signal_that_the_job_uses_since_is_the_jobs_in_its_children_too(tmp_path: Path) -> None:
    """SIGURG, by which a process is asked for its stacks; in the child there is no folder for them."""
    code = (
        "import os, shutil, signal, multiprocessing.queues\n"
        "signal.signal(signal.SIGURG, lambda *_: print('mine', flush=True))\n"
        f"shutil.rmtree({str(tmp_path)!r}); open({str(tmp_path)!r}, 'x').close()\n"
        "if os.fork() == 0: signal.raise_signal(signal.SIGURG); os._exit(0)\n"
        "print(os.wait()[1])"
    )
    assert python(code, tmp_path, MPMON_DUMP_STACKS="1") == "mine\n0"


def test_a_shim_that_fails_at_the_start_of_a_job_without_standard_error(tmp_path: Path) -> None:
    package = tmp_path / "shim"
    shutil.copytree(STARTUP.parent, package)
    (package / "boot.py").write_text("broken", encoding="utf-8")
    command = f"exec {sys.executable} -c 'import sys; print(sys.stderr)' 2>&-"
    ended = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False,
        env=environment(tmp_path, PYTHONPATH=str(package / "startup")),
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "None\n")


# Forks, threads, ends

IN_RINGS = """
import gc, multiprocessing, os
gc.set_threshold(1000000)
os.register_at_fork(after_in_child=lambda: %s)
class Ring: pass
for _ in range(20):
    ring = Ring()
    ring.itself, ring.queue = ring, multiprocessing.SimpleQueue()
    ring.queue.put(1)
del ring
child = os.fork()
if child == 0: os._exit(0)
os.waitpid(child, 0)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("when", ["gc.collect()", "gc.set_threshold(1)"], ids=["before the shim's turn", "meanwhile"])
def test_queues_that_end_in_a_forked_child_are_still_those_of_its_parent(when: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IN_RINGS % when], env=environment(tmp_path), check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (-9, "")
    assert len([row for file in files(tmp_path).values() for row in file.queues]) == 20


def test_a_fork_in_a_thread_while_another_one_has_the_shims_lock(tmp_path: Path) -> None:
    code = (
        "import mpmon.shim, multiprocessing as m, os, threading; mpmon.shim.install(); queue = m.SimpleQueue()\n"
        "from mpmon.shim.writer import WRITER\n"
        "def fork():\n"
        "    if os.fork() == 0: queue.put(1); queue.get(); os._exit(0)\n"
        "WRITER.lock.acquire(); thread = threading.Thread(target=fork); thread.start(); thread.join(); print(os.wait()[1])"
    )
    assert hooked(code, tmp_path, PYTHONWARNINGS="ignore") == "0"
    child = max(files(tmp_path).values(), key=lambda file: file.name.start_ticks)
    assert [(row.puts, row.gets) for row in child.queues] == [(1, 1)]


def test_generations_of_forks_keep_one_file_for_stacks_open(tmp_path: Path) -> None:
    code = (
        "import os, multiprocessing.queues\n"
        "while os.fork() == 0 and (generations := locals().get('generations', 0) + 1) < 4: pass\n"
        "try: os.wait()\n"
        "except ChildProcessError:\n"
        "    print(sum(os.path.realpath(f'/proc/self/fd/{n}').endswith('.stacks') for n in os.listdir('/proc/self/fd')))"
    )
    assert python(code, tmp_path, MPMON_DUMP_STACKS="1") == "1"


def test_a_thread_that_begins_with_a_call_is_counted(tmp_path: Path) -> None:
    code = (
        "import _thread, multiprocessing as m, os; queue = m.SimpleQueue(); _thread.start_new_thread(queue.put, (1,))\n"
        "queue.get(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(tmp_path), check=False)
    row = queue_of(next(iter(files(tmp_path).values())), "SimpleQueue")
    assert (row.puts + row.putting, row.put_site) == (1, None)


def test_a_line_that_another_thread_was_in_the_way_of_is_known_the_next_time(tmp_path: Path) -> None:
    code = (
        "import mpmon.shim, multiprocessing as m, os; mpmon.shim.install(); queue = m.SimpleQueue()\n"
        "from mpmon.shim.writer import WRITER\n"
        "for busy in (True, False):\n"
        "    WRITER.lock.acquire(False) if busy else WRITER.lock.release()\n"
        "    queue.put(1)\n"
        "os.kill(os.getpid(), 9)"
    )
    more = {"MPMON_RUN_DIR": str(tmp_path), "PYTHONPATH": str(HOME)}
    subprocess.run([sys.executable, "-c", code], env=environment(None, **more), check=False)
    row = queue_of(next(iter(files(tmp_path).values())), "SimpleQueue")
    assert (row.puts, row.put_site) == (2, "<string>:5 in <module>")
