"""Starting the shim: each hook is installed when its module is imported, and nothing is imported earlier.

Importing this module has no effect; `start` costs a few microseconds and puts a finder at the front of `sys.meta_path`. It
stays there: an import in progress, here or in another thread, iterates over that list and would skip a finder if one were
removed.
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
"""Attribute of `sys` that says that the shim is on: the package may be loaded under two names, `mpmon.shim` and `mpmon_shim`.
"""

DUMPS = "MPMON_DUMP_STACKS"
"""Environment variable that turns `mpmon.shim.dumps` on."""

HOOKS = {
    "multiprocessing.queues": ("queues", "hook"),
    "torch.storage": ("storages", "hook_storage"),
    "torch.cuda": ("storages", "hook_collect"),
}
"""By module of the job: the shim's module and its function that installs the hooks."""


def start() -> bool:
    """Install the hooks, now or when their modules are imported; returns whether the shim is on."""
    if hasattr(sys, MARK):
        return True
    problem = _why_not()
    if problem:
        _say(problem)
        return False
    setattr(sys, MARK, True)
    if os.environ.get(DUMPS):
        _sibling("dumps").listen()
    # `None` marks a module whose import is blocked.
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
    """Install the hooks of one module; if that fails, remove all hooks for good."""
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
    """Lets the other finders find a module, and wraps its loader to learn when it is loaded."""

    def __init__(self, awaited: Iterable[str]) -> None:
        self._awaited = set(awaited)
        self._asking: set[tuple[int, str]] = set()
        """Pairs of thread and module in progress: another finder may call all finders too."""

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
    """Wraps a module's own loader, which is restored before the module is executed."""

    def __init__(self, own: Any, loaded: Callable[[ModuleType], None]) -> None:
        self._own = own
        self._loaded = loaded

    def __getattr__(self, name: str) -> Any:
        if name == "_own":
            # For a copy that is still being created (copy.copy, unpickling).
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
