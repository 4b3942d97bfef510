"""Everything known of one process, for the details page: its own facts, then the sections of `SECTIONS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mpmon.diagnosis.edges.deaths import exit_words
from mpmon.tui import format as fmt
from mpmon.tui.describe import events, ipc
from mpmon.tui.describe.files import files
from mpmon.tui.describe.gpus import gpus
from mpmon.tui.describe.limits import limits, shared_memory
from mpmon.tui.describe.stack import all_threads
from mpmon.tui.describe.waits import STATES
from mpmon.tui.line import BLANK, Line, clip, plain, wrap, wrap_spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpmon.model import Process
    from mpmon.tui.scene import Scene


def details(scene: Scene, pid: int, width: int) -> list[Line]:
    """The process, then each section that has something to say."""
    process = scene.processes.get(pid)
    if process is None:
        return [plain(f"process {scene.hosts.pid(pid)} is gone", "warn")]
    lines = _process(scene, process, width)
    for section in SECTIONS:
        if found := section.lines(scene, process, width):
            lines += [BLANK, plain(section.title, "title"), *found]
    return lines


def in_short(scene: Scene, pid: int, width: int, height: int) -> list[Line]:
    """The process, then those sections of `IN_SHORT` that fit in `height` lines whole."""
    process = scene.processes.get(pid)
    if process is None:
        return []
    lines = _process(scene, process, width)[:height]
    for section in IN_SHORT:
        found = section.lines(scene, process, width)
        if found and len(lines) + len(found) + 2 <= height:
            lines += [BLANK, plain(section.title, "title"), *found]
    return lines


def _process(scene: Scene, process: Process, width: int) -> list[Line]:
    """Identity, then numbers, then the command."""
    lines = wrap(_identity(scene, process), width, then="  ")
    for facts in (_numbers(scene, process), _memory(process)):
        lines += wrap_spans([(f"{fact} · ", "") for fact in facts[:-1]] + [(facts[-1], "")], width)
    lines += wrap("command " + " ".join(process.cmdline or (fmt.UNKNOWN,)), width, then="  ")
    for name, path in (("executable", process.exe), ("works in", process.cwd)):
        lines += wrap(f"{name} {path}", width, then="  ") if path else []
    return lines


def _identity(scene: Scene, process: Process) -> str:
    """Who it is."""
    view = scene.views.get(process.pid)
    pid, parent = scene.hosts.pid(process.pid), scene.hosts.number(process.ppid)
    parts = [f"{scene.role(process.pid)}, pid {pid}, parent {parent}, named {process.name}"]
    if process.namespace_pid is not None:
        parts.append(f"pid {scene.hosts.number(process.namespace_pid)} in its namespace")
    if view and view.rank is not None:
        parts.append(f"rank {view.rank}" + (f" of {view.world_size}" if view.world_size else ""))
        parts += [f"local rank {view.local_rank}"] if view.local_rank is not None else []
    if process.uid is not None:
        parts.append(f"user {process.user or process.uid}")
    if process.tracer_pid:
        parts.append(f"traced by {scene.hosts.number(process.tracer_pid)}")
    return ", ".join(parts)


def _numbers(scene: Scene, process: Process) -> list[str]:
    """How it is, or how it ended."""
    view = scene.views.get(process.pid)
    state = STATES.get(process.state, f"state {process.state}")
    started = f"started {fmt.moment(process.start_time)}, {fmt.age(scene.since(process.start_time))} ago"
    used = f"{process.cpu_s:.1f} s of CPU"
    does = [view.does] if view and view.does else []
    if process.ended:
        end = next(iter(does), exit_words(process.exit_code))
        return [*([state] if process.state == "Z" else []), end, started, used]
    now = [f"{fmt.percent(view.cpu_percent)} % now"] if view and view.cpu_percent is not None else []
    return [state, started, fmt.plural(process.threads, "thread"), used, *now, *does]


def _memory(process: Process) -> list[str]:
    """What it uses; of one that has ended only what it has read and written."""
    moved = f"read {fmt.size(process.read_bytes)}, written {fmt.size(process.written_bytes)}"
    if process.ended:
        return [moved]
    share = (
        "" if process.pss_bytes is None else f", {fmt.size(process.pss_bytes)} with shared pages divided by their users"
    )
    return [f"memory {fmt.size(process.rss_bytes)} resident{share}", moved]


def _threads(scene: Scene, process: Process, width: int) -> list[Line]:
    """What each waits for and holds, with its frames."""
    return all_threads(scene, process.pid, width, folded=True)


def _environment(scene: Scene, process: Process, width: int) -> list[Line]:
    """The few names mpmon keeps."""
    if process.environment is None:
        reasons = scene.reasons("environment", process.pid) or scene.reasons("processes", process.pid)
        return [plain(f"  not read: {reasons[0]}" if reasons else "  cannot be read", "dim")]
    if not process.environment:
        return [plain("  none of the names that mpmon keeps", "dim")]
    pairs = sorted(process.environment.items())
    lines = [clip(((f"  {name}", "key"), (f"={value}", "")), width) for name, value in pairs]
    return [*lines, plain("  these show its place in the job; e shows all", "dim")]


class Section(NamedTuple):
    """A part of the page."""

    title: str
    lines: Callable[[Scene, Process, int], list[Line]]
    """Scene, process and width in, lines out; none leave the section out."""


_GPUS = Section("GPUs", gpus)
_FILES = Section("files, pipes and locks", files)
_QUEUES = Section("queues and CUDA memory", ipc.of_process)
_SHARED_MEMORY = Section("shared memory", shared_memory)
_LIMITS = Section("limits", limits)
_ENVIRONMENT = Section("environment", _environment)

SECTIONS: tuple[Section, ...] = (
    Section("threads", _threads),
    _GPUS,
    _FILES,
    _QUEUES,
    _SHARED_MEMORY,
    _LIMITS,
    Section("events", events.of_process),
    _ENVIRONMENT,
)
"""In the order of the page. To add one: a function in a file of its own, and a line here."""

IN_SHORT = (_GPUS, _LIMITS, _ENVIRONMENT, _QUEUES, _SHARED_MEMORY)
"""What is beside the stack and the events, which have panels: what changes least first. Files are not among them: who is at
the other end of each would be asked anew with every picture."""
