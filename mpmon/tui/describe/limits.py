"""What one process uses of what is limited: descriptors, mappings, its control group, shared memory of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui import format as fmt
from mpmon.tui.describe.naming import names_of
from mpmon.tui.line import Line, clip, plain

if TYPE_CHECKING:
    from mpmon.model import Cgroup, Limits, Process, SharedFile, SharedUse
    from mpmon.tui.scene import Scene

NEARLY_FULL = 0.9
"""From this share of a limit on it is worth a warning."""

MOST_FILES = 8
"""Files of shared memory that are listed, the largest first."""


def limits(scene: Scene, process: Process, width: int) -> list[Line]:
    """Its limits, and those of its control group; empty when nothing is known."""
    own = next((row for row in scene.snapshot.limits if row.pid == process.pid), None)
    group = next((row for row in scene.snapshot.cgroups if row.path == process.cgroup), None)
    lines = _own(own) if own else [plain(f"  {reason}", "warn") for reason in scene.reasons("limits", process.pid)]
    if group:
        lines += _group(group)
    elif process.cgroup:
        lines.append(plain(f"  control group {process.cgroup}"))
    return [clip(line, width) for line in lines]


def _own(row: Limits) -> list[Line]:
    return [
        _used("descriptors", row.descriptors, row.descriptors_limit),
        _used("mappings", row.maps, row.maps_limit),
    ]


def _used(what: str, used: int | None, limit: int | None) -> Line:
    full = used is not None and limit is not None and used >= NEARLY_FULL * limit
    return ((f"  {what} ", ""), (f"{fmt.number(used)} of {fmt.number(limit)}", "warn" if full else ""))


def _group(row: Cgroup) -> list[Line]:
    """Its path, its limits, and whether the kernel killed in it for memory."""
    facts = [f"memory limit {_known(row, 'limit_bytes', fmt.size(row.limit_bytes))}"]
    facts.append(f"peak {_known(row, 'peak_bytes', fmt.size(row.peak_bytes))}")
    if row.cpus is not None:
        facts.append(f"{row.cpus:g} CPUs")
    killed: Line = ((f" · {row.oom_kills} killed for memory", "bad"),) if row.oom_kills else ()
    return [plain(f"  control group {row.path}"), ((f"    {' · '.join(facts)}", ""), *killed)]


def _known(row: Cgroup, field: str, said: str) -> str:
    """The value, or why it is not known."""
    reason = row.reasons.get(field)
    return f"{said} ({reason})" if reason and said == fmt.UNKNOWN else said


def shared_memory(scene: Scene, process: Process, width: int) -> list[Line]:
    """Files of torch in shared memory that it maps or has open, the largest first; empty when there are none."""
    uses = {row.object: row for row in scene.snapshot.shared_uses if row.pid == process.pid}
    files = [row for row in scene.snapshot.shared_files if row.id in uses]
    files.sort(key=lambda row: (-row.size_bytes, row.id))
    lines = [_shared_file(scene, row, uses[row.id]) for row in files[:MOST_FILES]]
    if len(files) > MOST_FILES:
        rest = files[MOST_FILES:]
        lines.append(plain(f"  {len(rest)} more with {fmt.size(sum(row.size_bytes for row in rest))}", "dim"))
    return [clip(line, width) for line in lines]


def _shared_file(scene: Scene, file: SharedFile, use: SharedUse) -> Line:
    """`   12M /dev/shm/torch_1 · storage · mapped once · also rank 1 (4102)`."""
    facts = [file.kind, f"{use.maps} mapped, {use.descriptors} open"]
    others = sorted({row.pid for row in scene.snapshot.shared_uses if row.object == file.id and row.pid != use.pid})
    if others:
        facts.append(f"also {names_of(scene, others)}")
    if file.creator_alive is False:
        facts.append(f"made by {file.creator}, which is dead")
    return (
        (f"  {fmt.size(file.size_bytes):>5} ", ""),
        (file.path, "place"),
        *((" (deleted)", "dim") for _ in range(file.deleted)),
        *((f" · {fact}", "") for fact in facts),
    )
