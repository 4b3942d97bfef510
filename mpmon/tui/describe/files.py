"""What one process holds open or mapped, and who is at the other end of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui.describe.naming import short_names
from mpmon.tui.describe.waits import names, object_facts
from mpmon.tui.line import Line, plain, wrap_spans

if TYPE_CHECKING:
    from mpmon.model import Handle, Process, SemaphoreUse
    from mpmon.tui.scene import Scene

EVERYBODYS = ("device:", "terminal:", "null")
"""Objects of which it tells nothing who else has them."""


def files(scene: Scene, process: Process, width: int) -> list[Line]:
    """One line a descriptor or mapping."""
    handles = scene.handles_of(process.pid)
    reasons = scene.reasons("handles", process.pid)
    lines = [line for handle in handles for line in wrap_spans(_file(scene, handle), width, then=" " * 8)]
    lines += [plain(f"  {reason}", "warn") for reason in reasons]
    return lines or [plain("  none read yet", "dim")]


def _file(scene: Scene, handle: Handle) -> Line:
    """`   7 r- pipe:18 · 0 of 65536 bytes · written by dataloader worker 1 (4121)`."""
    number = f"{handle.fd:>4}" if handle.fd is not None else " map"
    mode = ("r" if handle.reads else "-") + ("w" if handle.writes else "-")
    found = scene.objects.get(handle.object)
    facts = [fact for fact in object_facts(scene, found) if fact != handle.path] if found else []
    waiting = _waited_for(scene, handle)
    return (
        (f"{number} {mode} ", "dim"),
        (handle.path or handle.object, "place"),
        *(((" · a thread waits for it", "warn"),) if waiting else ()),
        *((f" · {fact}", "") for fact in (*facts, *_other_end(scene, handle))),
    )


def _waited_for(scene: Scene, handle: Handle) -> bool:
    return any(handle.object in row.waits_on for row in scene.blocked_of(handle.pid).values())


def _other_end(scene: Scene, handle: Handle) -> list[str]:
    """Who reads what this one writes, writes what it reads, holds the lock, or has the same file."""
    if handle.object.startswith(EVERYBODYS):
        return []
    if handle.object.startswith("pipe:"):
        return _pipe(scene, handle)
    if handle.object.startswith("socket:"):
        found = scene.objects.get(handle.object)
        peers = _holders(scene, found.peer, but=None) if found and found.peer else ()
        return [f"to {names(scene, peers)}"] if peers else []
    told = [f"held by {names(scene, (row.pid,))}" for row in scene.snapshot.semaphores if _holds(row, handle)]
    others = _holders(scene, handle.object, but=handle.pid)
    return [*told, f"also {short_names(scene, others)}"] if others else told


def _holds(row: SemaphoreUse, handle: Handle) -> bool:
    return row.object == handle.object and row.count > 0 and row.max_value == 1


def _pipe(scene: Scene, handle: Handle) -> list[str]:
    """The other direction; a pipe that nobody else has may be this process's own."""
    ends = [h for h in scene.handles.get(handle.object, ()) if h.pid != handle.pid]
    writers = tuple(sorted({h.pid for h in ends if h.writes}))
    readers = tuple(sorted({h.pid for h in ends if h.reads}))
    told: list[str] = []
    if handle.reads:
        told.append(f"written by {names(scene, writers)}" if writers else _nobody(scene, handle, "writes"))
    if handle.writes:
        told.append(f"read by {names(scene, readers)}" if readers else _nobody(scene, handle, "reads"))
    return told


def _nobody(scene: Scene, handle: Handle, does: str) -> str:
    """A stranger to the job at the other end, or this process itself, or nobody that was seen."""
    strangers = [h for h in scene.snapshot.outsiders if h.object == handle.object]
    if strangers:
        return f"process {scene.hosts.pid(strangers[0].pid)}, not part of the job, {does}"
    own = [h for h in scene.handles.get(handle.object, ()) if h.pid == handle.pid and h.fd != handle.fd]
    if any(h.writes if does == "writes" else h.reads for h in own):
        return f"{does} it itself"
    return f"no known process {does} it"


def _holders(scene: Scene, name: str, *, but: int | None) -> tuple[int, ...]:
    return tuple(sorted({h.pid for h in scene.handles.get(name, ()) if h.pid != but}))
