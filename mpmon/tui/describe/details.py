"""Everything known of one process, for the details page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui import format as fmt
from mpmon.tui.describe.stack import all_threads
from mpmon.tui.describe.waits import object_facts
from mpmon.tui.line import BLANK, Line, clip, plain, wrap

if TYPE_CHECKING:
    from mpmon.model import Handle, Process
    from mpmon.tui.scene import Scene

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "uninterruptible sleep",
    "T": "stopped by a signal",
    "t": "held by a tracer",
    "Z": "zombie",
    "X": "ended",
    "I": "idle",
}
"""Letters of proc_pid_stat(5) in words."""


def details(scene: Scene, pid: int, width: int) -> list[Line]:
    """The process, its threads, what it holds open and its environment."""
    process = scene.processes.get(pid)
    if process is None:
        return [plain(f"process {pid} is gone", "warn")]
    return [
        *_process(scene, process, width),
        *_section("threads", all_threads(scene, pid, width)),
        *_section("files and shared objects", _files(scene, pid, width)),
        *_section("environment", _environment(scene, process, width)),
    ]


def _section(title: str, lines: list[Line]) -> list[Line]:
    return [BLANK, plain(title, "title"), *lines]


def _process(scene: Scene, process: Process, width: int) -> list[Line]:
    """Identity, then numbers, then the command."""
    facts = [_identity(scene, process), _numbers(scene, process), _memory(process)]
    lines = [line for fact in facts for line in wrap(fact, width, then="  ")]
    if process.exe:
        lines += wrap(f"executable {process.exe}", width, then="  ")
    return lines + wrap("command " + " ".join(process.cmdline or (fmt.UNKNOWN,)), width, then="  ")


def _identity(scene: Scene, process: Process) -> str:
    """Who it is."""
    view = scene.views.get(process.pid)
    parts = [f"{scene.role(process.pid)}, pid {process.pid}, parent {process.ppid}, named {process.name}"]
    if process.namespace_pid is not None:
        parts.append(f"pid {process.namespace_pid} in its namespace")
    if view and view.rank is not None:
        parts.append(f"rank {view.rank} of {fmt.number(view.world_size)}, local {fmt.number(view.local_rank)}")
    if process.tracer_pid:
        parts.append(f"traced by {process.tracer_pid}")
    return ", ".join(parts)


def _numbers(scene: Scene, process: Process) -> str:
    """How it is."""
    view = scene.views.get(process.pid)
    parts = [
        STATES.get(process.state, f"state {process.state}"),
        f"started {fmt.age(scene.since(process.start_time))} ago",
        fmt.plural(process.threads, "thread"),
        f"{process.cpu_s:.1f} s of CPU",
    ]
    if view and view.cpu_percent is not None:
        parts.append(f"{fmt.percent(view.cpu_percent)} % now")
    if view and view.does:
        parts.append(view.does)
    if process.exit_code is not None:
        parts.append(f"wait status {process.exit_code}")
    return " · ".join(parts)


def _memory(process: Process) -> str:
    """What it uses."""
    return (
        f"memory {fmt.size(process.rss_bytes)} resident, {fmt.size(process.pss_bytes)} proportional"
        f" · read {fmt.size(process.read_bytes)}, written {fmt.size(process.written_bytes)}"
    )


def _files(scene: Scene, pid: int, width: int) -> list[Line]:
    """Descriptors and mappings, with who else holds each."""
    handles = scene.handles_of(pid)
    if not handles:
        reasons = scene.reasons("handles", pid)
        return [plain(f"  not read: {reasons[0]}" if reasons else "  none read", "dim")]
    return [clip(_file(scene, handle), width) for handle in handles]


def _file(scene: Scene, handle: Handle) -> Line:
    """`   7 r- pipe:18 · 0 of 65536 bytes · also main`."""
    number = f"{handle.fd:>4}" if handle.fd is not None else " map"
    mode = ("r" if handle.reads else "-") + ("w" if handle.writes else "-")
    found = scene.objects.get(handle.object)
    facts = object_facts(scene, found) if found else []
    others = sorted({h.pid for h in scene.handles.get(handle.object, ()) if h.pid != handle.pid})
    if others:
        facts.append("also " + ", ".join(scene.role(other) for other in others))
    return ((f"{number} {mode} ", "dim"), (handle.object, "place"), *((f" · {fact}", "") for fact in facts))


def _environment(scene: Scene, process: Process, width: int) -> list[Line]:
    """The few names mpmon keeps."""
    if process.environment is None:
        reasons = scene.reasons("environment", process.pid) or scene.reasons("processes", process.pid)
        return [plain(f"  not read: {reasons[0]}" if reasons else "  may not be read", "dim")]
    if not process.environment:
        return [plain("  none of the names mpmon keeps", "dim")]
    pairs = sorted(process.environment.items())
    return [clip(((f"  {name}", "key"), (f"={value}", "")), width) for name, value in pairs]
