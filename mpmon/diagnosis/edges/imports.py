"""Threads that wait for another thread's import of a module."""

from __future__ import annotations

from mpmon.diagnosis.graph import Basis, WaitEdge
from mpmon.diagnosis.stacks.frames import calls
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Frame

_IMPORTS, _ACQUIRES = "importlib._bootstrap>", frozenset({"_find_and_load", "_lock_unlock_module"})


def import_lock(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The lock of a module, which the importing thread holds until the module's code has run:
    Lib/importlib/_bootstrap.py.
    """
    stack = job.stacks.get(key)
    if stack is None or not stack.frames or not calls(stack.frames[0], _IMPORTS, ("acquire",)):
        return None
    name = next((found for frame in stack.frames if (found := _imports(frame, _ACQUIRES))), None)
    holders = [other for other in job.threads(key[0]) if other != key and name and _runs_module(job, other, name)]
    if len(holders) != 1:
        return None
    evidence = f"{job.thread_words(holders[0])} of pid {key[0]} imports {name}: a frame of _find_and_load()"
    return WaitEdge(
        tuple(holders), basis=Basis.FRAMES, holder_known=True, words=f"the import of {name}", evidence=evidence
    )


def _imports(frame: Frame, functions: frozenset[str]) -> str | None:
    """The module that a call imports, by its argument `name`."""
    return (frame.known or {}).get("name") if calls(frame, _IMPORTS, functions) else None


def _runs_module(job: JobState, key: ThreadKey, name: str) -> bool:
    """The thread holds the module's import lock and is executing the module's code."""
    stack = job.stacks.get(key)
    if stack is None:
        return False
    begun = [frame for at, frame in enumerate(stack.frames) if at and calls(stack.frames[at - 1], _IMPORTS, _LOADS)]
    return any(_imports(frame, frozenset({"_find_and_load"})) == name for frame in begun)


_LOADS = frozenset({"_find_and_load_unlocked"})
