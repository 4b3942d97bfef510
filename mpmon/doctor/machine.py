"""The machine: optional files of the kernel, shared memory, GPUs, the terminal."""

from __future__ import annotations

import locale
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mpmon.doctor.check import DEADLINE_S, PROC, Check
from mpmon.probes.nvml.child import look_once

KERNEL_FILES: Mapping[str, str] = {
    "schedstat": "whether a thread ran",
    "sched": "how long a thread has slept",
    "syscall": "what a thread waits in",
    "wchan": "where in the kernel a thread waits",
    "children": "quick listing of children",
}
"""Files that a kernel may be built without (CONFIG_SCHED_INFO, CONFIG_SCHED_DEBUG, CONFIG_HAVE_ARCH_TRACEHOOK,
CONFIG_KALLSYMS, CONFIG_PROC_CHILDREN), and what mpmon knows from them."""

SMALL_SHARED_MEMORY = 1 << 30
"""Docker gives a container 64 MiB, which a few DataLoader workers can fill."""

NVIDIA = "NVIDIA driver"


def checks_of_machine(proc: Path) -> Iterator[Check]:
    """All checks of this module."""
    yield check_kernel_files(proc)
    yield check_shared_memory(proc)
    yield check_gpu()
    yield check_terminal(os.environ)


def check_kernel_files(proc: Path) -> Check:
    """Which of the kernel's optional files are there, for our own main thread."""
    missing = [f"{name} ({what})" for name, what in KERNEL_FILES.items() if not _kernel_file(proc, name).exists()]
    if not missing:
        return Check("kernel's files", ok=True, because=f"all there: {', '.join(KERNEL_FILES)}")
    because = f"this kernel was built without {', '.join(missing)}"
    return Check("kernel's files", ok=None, because=f"{because}: mpmon says less about sleeps")


def _kernel_file(proc: Path, name: str) -> Path:
    return proc / "self/task" / str(os.getpid()) / name if proc == PROC else proc / "self" / name


def check_shared_memory(proc: Path) -> Check:
    """Size of /dev/shm, where tensors travel between processes."""
    mounts = _lines(proc / "self/mounts") or _lines(proc / "mounts")
    if not any(line.split()[1:2] == ["/dev/shm"] for line in mounts):
        return Check("/dev/shm", ok=False, because="not mounted", do_this="mount -t tmpfs tmpfs /dev/shm")
    if proc != PROC:
        return Check("/dev/shm", ok=None, because="mounted, size not queried")
    size = shutil.disk_usage("/dev/shm")
    because = f"{_gib(size.total)} in all, {_gib(size.free)} free"
    if size.total < SMALL_SHARED_MEMORY or size.free < size.total // 20:
        remedy = "docker run --shm-size=8g (or --ipc=host); on a machine of your own see what `ls -l /dev/shm` shows"
        return Check("/dev/shm", ok=False, because=f"{because}: little for DataLoader workers", do_this=remedy)
    return Check("/dev/shm", ok=True, because=because)


def check_gpu() -> Check:
    """Query NVIDIA's driver once, like a watch does: in a process that is killed if the driver blocks."""
    look = look_once(DEADLINE_S)
    troubled = [f"GPU {gpu.index}: {gpu.problem}" for gpu in look.gpus if gpu.problem]
    because = "; ".join(filter(None, (look.problem, *troubled)))
    if look.harmless:
        return Check(NVIDIA, ok=None, because=f"{because}; GPU columns stay empty, all else works")
    if because:
        return Check(NVIDIA, ok=False, because=because)
    many = f"{len(look.gpus)} GPU{'' if len(look.gpus) == 1 else 's'}"
    return Check(NVIDIA, ok=True, because=f"{many}, driver {look.driver}, queried in {look.seconds:.2g} s")


def check_terminal(environment: Mapping[str, str]) -> Check:
    """Whether the live screen can be drawn."""
    if not sys.stdout.isatty():
        because = "standard output is not a terminal: mpmon prints a report instead of the live screen"
        return Check("terminal", ok=None, because=because)
    size = shutil.get_terminal_size()
    kind = environment.get("TERM", "unknown")
    colours = _colours(environment)
    encoding = locale.getpreferredencoding(do_setlocale=False)
    because = f"{size.columns}x{size.lines}, TERM={kind}, {colours}, {encoding}"
    remedies = _terminal_remedies(size, kind, encoding)
    return Check("terminal", ok=not remedies, because=because, do_this="; ".join(remedies))


def _colours(environment: Mapping[str, str]) -> str:
    """What the terminal reports about itself; the user's NO_COLOR takes precedence."""
    kind = environment.get("TERM", "")
    rules: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: bool(environment.get("NO_COLOR")), "no colours (NO_COLOR)"),
        (lambda: environment.get("COLORTERM") in {"truecolor", "24bit"}, "16 million colours"),
        (lambda: "256" in kind, "256 colours"),
    )
    return next((words for holds, words in rules if holds()), "16 colours")


def _terminal_remedies(size: os.terminal_size, kind: str, encoding: str) -> list[str]:
    remedies: list[str] = []
    if size.columns < 80 or size.lines < 24:
        remedies.append("make it 80x24 or larger")
    if kind in {"dumb", "unknown"}:
        remedies.append("set TERM, for example to xterm-256color")
    if encoding.replace("-", "").lower() != "utf8":
        remedies.append("set LANG=C.UTF-8, or use --ascii")
    return remedies


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
