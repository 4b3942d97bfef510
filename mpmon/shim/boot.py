"""Starting the shim: its hooks are put in as soon as the modules they belong to are imported, and nothing is imported before.

Importing this module only defines; `start` costs some microseconds and puts a finder before those of `sys.meta_path`.
It stays there: an import that is under way, here or in another thread, goes through that very list, and would miss one of
the finders after it.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

MARK = "_mpmon_shim"
"""Attribute of `sys` that says that the shim is on: it may be found under two names, `mpmon.shim` and `mpmon_shim`."""

DUMPS = "MPMON_DUMP_STACKS"
"""Environment variable that turns `mpmon.shim.dumps` on."""

HOOKS = {
    "multiprocessing.queues": ("queues", "hook"),
    "torch.storage": ("storages", "hook_storage"),
    "torch.cuda": ("storages", "hook_collect"),
}
"""Module of the job: module of the shim and its function that puts the hooks in."""


def start() -> bool:
    """Put the hooks in, now or when their modules come; whether the shim is on."""
    if hasattr(sys, MARK):
        return True
    problem = _why_not()
    if problem:
        _say(problem)
        return False
    setattr(sys, MARK, True)
    if os.environ.get(DUMPS):
        _sibling("dumps").listen()
    # `None` is there for a module that may not be imported.
    loaded = {name: module for name in HOOKS if (module := sys.modules.get(name)) is not None}
    for name, module in loaded.items():
        _hook(name, module)
    if len(loaded) < len(HOOKS):
        sys.meta_path.insert(0, Finder(HOOKS.keys() - loaded))
    return True


def _why_not() -> str:
    if not sys.platform.startswith("linux"):
        return "it works on Linux only"
    if sys.implementation.name != "cpython" or sys.version_info < (3, 10):
        return "it needs CPython 3.10 or newer"
    has_gil: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return "" if has_gil() else "free-threaded Python is not supported"


def _hook(name: str, module: ModuleType) -> None:
    """Put the hooks of one module in; if that fails, none stay anywhere, and no more come."""
    home, function = HOOKS[name]
    try:
        getattr(_sibling(home), function)(module)
        _sibling("rights").let_mpmon_look()
    except Exception as problem:
        _say(repr(problem))
        if patches := sys.modules.get(f"{__package__}.patches"):
            patches.give_up()


def _sibling(name: str) -> Any:
    return __import__(f"{__package__}.{name}", fromlist=["name"])


def _say(problem: str) -> None:
    try:
        sys.stderr.write(f"mpmon: shim off: {problem}\n")
    except Exception:
        return


class Finder:
    """Lets the other finders find a module, and has its loader tell when it is loaded."""

    def __init__(self, awaited: Iterable[str]) -> None:
        self._awaited = set(awaited)
        self._asking: set[tuple[int, str]] = set()
        """Thread and module: another finder may ask all others too."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """As importlib.abc.MetaPathFinder; `None` for all modules but a few."""
        if name not in self._awaited:
            return None
        asking = (get_ident(), name)
        if asking in self._asking:
            return None
        self._asking.add(asking)
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._asking.discard(asking)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = Loader(spec.loader, self._loaded)  # pyright: ignore[reportAttributeAccessIssue]
        return spec

    def _ask_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None

    def _loaded(self, module: ModuleType) -> None:
        name = module.__name__
        if name in self._awaited:
            self._awaited.discard(name)
            _hook(name, module)


class Loader:
    """A module's own loader, which takes its place again before the module is executed."""

    def __init__(self, own: Any, loaded: Callable[[ModuleType], None]) -> None:
        self._own = own
        self._loaded = loaded

    def __getattr__(self, name: str) -> Any:
        if name == "_own":
            # Of a copy that is just being made.
            raise AttributeError(name)
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As importlib.abc.Loader."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As importlib.abc.Loader."""
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        self._loaded(module)
