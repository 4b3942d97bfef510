"""What can be read here and what cannot, why, and what to do about it.

Each check asks one question and answers it in a line; none of them changes anything or fails the program.
"""

from __future__ import annotations

import locale
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from mpmon.probes.nvml.child import look_once
from mpmon.probes.rights import (
    CONTAINER_REMEDY,
    NOT_YAMA,
    YAMA_REMEDY,
    Credentials,
    is_dumpable,
    is_python,
    read_credentials,
    user_name,
    why_refused,
    why_unreadable,
    yama_scope,
)
from mpmon.probes.stacks import find_py_spy

PROC = Path("/proc")
DEADLINE_S = 5.0
"""For each thing that is started to see whether it works."""

OLDEST_PY_SPY = (0, 4, 3)
"""The first one that names the threads and classes of Python 3.14."""

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of <linux/proc_ns.h>: the namespace of the machine itself."""

SMALL_SHARED_MEMORY = 1 << 30
"""Docker gives a container 64 MiB, which a few DataLoader workers fill."""

STACKS = "stacks"
"""Beginning of the names of the checks that decide the exit status."""

CHILD = "import sys; print('ready', flush=True); sys.stdin.read()"

NVIDIA = "NVIDIA driver"

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible sleep",
    "I": "idle",
    "T": "stopped",
    "t": "held by a tracer",
    "Z": "a zombie",
    "X": "dead",
}
"""The letters of proc_pid_stat(5)."""


@dataclass(frozen=True)
class Check:
    """One question and its answer."""

    name: str
    ok: bool | None
    """`None` when it could not be found out, or does not matter here."""
    because: str
    do_this: str = ""


def checkup(pid: int | None, proc: Path = PROC) -> tuple[Check, ...]:
    """All checks of this machine and, with a pid, of that process."""
    return (*_checks_of_tools(), *_checks_of_rights(proc), *_checks_of_process(pid, proc), *_checks_of_machine(proc))


def exit_status(checks: Sequence[Check]) -> int:
    """0 when stacks can be read: of the process that was named, else of a child of ours."""
    deciding = [check for check in checks if check.name.startswith(STACKS)]
    return 0 if deciding and deciding[-1].ok else 1


def render(checks: Sequence[Check]) -> str:
    """Plain text, a line for each check and one more for what to do."""
    width = max((len(check.name) for check in checks), default=0)
    lines: list[str] = []
    for check in checks:
        word = {True: "can", False: "cannot", None: "unknown"}[check.ok]
        lines.append(f"{word:<8} {check.name:<{width}}  {check.because}")
        if check.do_this:
            lines.append(f"{'':<8} {'':<{width}}  do: {check.do_this}")
    return "\n".join(lines)


def _checks_of_tools() -> Iterator[Check]:
    yield check_py_spy(find_py_spy())
    yield Check("Python", ok=True, because=f"{sys.version.split()[0]} at {sys.executable}")
    yield check_torch()


def check_py_spy(executable: str | None) -> Check:
    """Whether py-spy is there and new enough."""
    remedy = "pip install 'py-spy>=0.4.3' into mpmon's environment"
    if executable is None:
        return Check("py-spy", ok=False, because="not found beside this Python nor on the PATH", do_this=remedy)
    status, said = _ask([executable, "--version"])
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    if status != 0 or match is None:
        return Check("py-spy", ok=False, because=f"{executable} does not run: {_first_line(said)}", do_this=remedy)
    version = tuple(int(part) for part in match.groups())
    because = f"{match.group()} at {executable}"
    if version < OLDEST_PY_SPY:
        return Check("py-spy", ok=False, because=f"{because}, too old", do_this=remedy)
    return Check("py-spy", ok=True, because=because)


def check_torch() -> Check:
    """Whether torch is installed beside mpmon; not imported, and the job may well have its own."""
    if find_spec("torch") is None:
        return Check("torch", ok=None, because="not installed beside mpmon, which only the demo would use")
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        version = "of unknown version"
    return Check("torch", ok=True, because=f"{version} (not imported)")


def _checks_of_rights(proc: Path) -> Iterator[Check]:
    me = read_credentials("self", proc)
    if me is None:
        yield Check("own rights", ok=None, because=f"{proc}/self/status cannot be read", do_this="mount /proc")
        return
    yield check_capability(me)
    yield check_yama(me, proc)
    yield check_seccomp(me)
    yield check_namespace(me, proc)
    yield check_own_child(proc)


def check_capability(me: Credentials) -> Check:
    """CAP_SYS_PTRACE reads everybody's processes, without it only those of the same user (capabilities(7))."""
    user = user_name(me.uids[0]) if me.uids else "unknown user"
    if me.may_trace_all:
        return Check("other users' processes", ok=True, because=f"running as {user} with CAP_SYS_PTRACE")
    if me.uids and me.uids[0] == 0:
        because, remedy = f"running as {user} without CAP_SYS_PTRACE, as in a container", CONTAINER_REMEDY
    else:
        because, remedy = f"running as {user} without CAP_SYS_PTRACE", "run as the job's user, or as root"
    return Check("other users' processes", ok=False, because=because, do_this=remedy)


def check_yama(me: Credentials, proc: Path) -> Check:
    """What the Yama security module lets pass (kernel: admin-guide/LSM/Yama)."""
    scope = yama_scope(proc)
    if scope == NOT_YAMA:
        return Check("Yama", ok=True, because="does not restrict (no Yama, or ptrace_scope is 0)")
    if scope == 3:
        because = "ptrace_scope is 3: nobody may trace"
        return Check("Yama", ok=False, because=because, do_this="set another value at boot")
    if me.may_trace_all:
        return Check("Yama", ok=True, because=f"ptrace_scope is {scope}, and CAP_SYS_PTRACE passes")
    who = "only ancestors may read a process" if scope == 1 else "only CAP_SYS_PTRACE may read a process"
    return Check("Yama", ok=False, because=f"ptrace_scope is {scope}: {who}", do_this=YAMA_REMEDY)


def check_seccomp(me: Credentials) -> Check:
    """A system call filter of ours, which may or may not forbid what mpmon needs."""
    if me.seccomp is None:
        return Check("seccomp", ok=None, because="this kernel does not tell")
    if me.seccomp == 0:
        return Check("seccomp", ok=True, because="no system call filter")
    because = "a system call filter is on, as in a container; the stacks check tells whether it matters"
    return Check("seccomp", ok=None, because=because)


def check_namespace(me: Credentials, proc: Path) -> Check:
    """Whether all processes of the machine can be seen at all (pid_namespaces(7))."""
    name = "all processes of the machine"
    try:
        namespace = os.readlink(proc / "self/ns/pid")
    except OSError:
        return Check(name, ok=None, because=f"{proc}/self/ns/pid cannot be read")
    if namespace == INITIAL_PID_NAMESPACE and len(me.namespace_pids) < 2:
        return Check(name, ok=True, because="mpmon is in the machine's own pid namespace")
    remedy = "to see more: docker run --pid=host, in Kubernetes hostPID: true, or run mpmon on the host"
    because = "mpmon is in a pid namespace (container): it sees what is in there"
    return Check(name, ok=None, because=because, do_this=remedy)


def check_own_child(proc: Path) -> Check:
    """Really read the stacks of a Python process that is ours."""
    name = f"{STACKS} of a child"
    if proc != PROC:
        return Check(name, ok=None, because=f"not tried: {proc} is not this machine's /proc")
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            if child.stdout is None or not select.select([child.stdout], [], [], DEADLINE_S)[0]:
                return Check(name, ok=None, because=f"a Python did not start within {DEADLINE_S:g} s")
            return _read_stacks(name, child.pid, proc)
        finally:
            child.kill()


def _read_stacks(name: str, pid: int, proc: Path) -> Check:
    executable = find_py_spy()
    if executable is None:
        return Check(name, ok=False, because="there is no py-spy", do_this="pip install 'py-spy>=0.4.3'")
    status, said = _ask([executable, "dump", "--nonblocking", "--json", "--pid", str(pid)])
    if status == 0:
        return Check(name, ok=True, because="py-spy reads them")
    because, _, remedy = why_unreadable(pid, proc).partition(": ")
    return Check(name, ok=False, because=f"{because} (py-spy: {_first_line(said)})", do_this=remedy)


def _checks_of_process(pid: int | None, proc: Path) -> Iterator[Check]:
    if pid is None:
        return
    target = read_credentials(pid, proc)
    if target is None:
        remedy = "run `mpmon` without a pid to choose from the running jobs"
        yield Check(f"{STACKS} of pid {pid}", ok=False, because="there is no such process here", do_this=remedy)
        return
    yield check_state(pid, target)
    if not target.state or target.state in "ZX":
        yield Check(f"{STACKS} of pid {pid}", ok=False, because=why_unreadable(pid, proc))
        return
    yield check_owner(pid, target, proc)
    yield check_dumpable(pid, target, proc)
    yield check_tracer(pid, target)
    yield check_python(pid, target, proc)
    yield check_target_namespace(pid, target, proc)
    yield from (check_file(pid, name, what, proc) for name, what in PRIVATE_FILES.items())
    yield _check_target_stacks(pid, proc)


def _check_target_stacks(pid: int, proc: Path) -> Check:
    name = f"{STACKS} of pid {pid}"
    if proc != PROC:
        because, _, remedy = why_refused(pid, proc).partition(": ")
        return Check(name, ok=False if because else None, because=because or "not tried", do_this=remedy)
    return _read_stacks(name, pid, proc)


def check_state(pid: int, target: Credentials) -> Check:
    """Running, stopped, or only its entry left."""
    name, what = f"state of pid {pid}", STATES.get(target.state, f"in state {target.state}")
    if target.state in {"Z", "X"}:
        because = f"it is {what}: it has ended and its parent has not collected it"
        return Check(name, ok=False, because=because, do_this=f"look at its parent: mpmon doctor {target.ppid}")
    if target.state == "T":
        because = "it is stopped (SIGSTOP or Ctrl-Z)"
        return Check(name, ok=True, because=because, do_this=f"to resume it: kill -CONT {pid}")
    return Check(name, ok=True, because=f"it is {what}")


def check_owner(pid: int, target: Credentials, proc: Path) -> Check:
    """Whose it is, and whether that lets us read it."""
    owner = user_name(target.uids[1]) if target.uids else "an unknown user"
    because, _, remedy = why_refused(pid, proc).partition(": ")
    if because:
        return Check(f"user of pid {pid}", ok=False, because=because, do_this=remedy)
    return Check(f"user of pid {pid}", ok=True, because=f"{owner}, whose processes mpmon may read")


def check_dumpable(pid: int, target: Credentials, proc: Path) -> Check:
    """Whether it forbade its own user to read it: PR_SET_DUMPABLE(2const)."""
    name = f"dumpable, pid {pid}"
    answer = is_dumpable(pid, proc, target.uids[1]) if target.uids else None
    if answer is None:
        return Check(name, ok=None, because="does not show for root's processes, and root may read them anyway")
    if answer:
        return Check(name, ok=True, because="its files in /proc belong to its user")
    because = "its files in /proc belong to root: it is setuid or has cleared the flag"
    return Check(name, ok=False, because=because, do_this="run mpmon as root")


def check_tracer(pid: int, target: Credentials) -> Check:
    """Whether a debugger is attached."""
    if not target.tracer_pid:
        return Check(f"tracer of pid {pid}", ok=True, because="none")
    because = f"pid {target.tracer_pid} traces it; stacks can be read all the same"
    remedy = "if the job stands still because of it, detach the debugger"
    return Check(f"tracer of pid {pid}", ok=None, because=because, do_this=remedy)


def check_python(pid: int, target: Credentials, proc: Path) -> Check:
    """Whether there is a Python in it."""
    name = f"Python in pid {pid}"
    answer = is_python(pid, proc)
    if answer is None:
        return Check(name, ok=None, because="its executable and maps may not be read")
    if answer:
        return Check(name, ok=True, because=f"{target.name}: a Python executable or library")
    because = f"{target.name} is not Python; mpmon still shows its state and its children"
    return Check(name, ok=False, because=because, do_this="give the pid of the Python process below it")


def check_target_namespace(pid: int, target: Credentials, proc: Path) -> Check:
    """Whether it lives in a container within ours."""
    name = f"namespace of pid {pid}"
    if len(target.namespace_pids) > 1:
        inside = target.namespace_pids[-1]
        return Check(name, ok=True, because=f"in a pid namespace of its own (container), where it is pid {inside}")
    try:
        same = os.readlink(proc / "self/ns/pid") == os.readlink(proc / str(pid) / "ns/pid")
    except OSError:
        return Check(name, ok=None, because="may not be read")
    return Check(name, ok=True, because="the same as mpmon's" if same else "another one than mpmon's")


PRIVATE_FILES: Mapping[str, str] = {
    "syscall": "what its threads wait in",
    "io": "how much it reads and writes",
    "maps": "its shared memory and semaphores",
    "fd": "its pipes, sockets and files",
}
"""Files of /proc/PID that take a right to read, and what mpmon knows from them."""


def check_file(pid: int, name: str, what: str, proc: Path) -> Check:
    """Whether one private file can be read."""
    path = proc / str(pid) / name
    try:
        if name == "fd":
            os.listdir(path)
        else:
            path.read_bytes()
    except OSError as error:
        remedy = "see what is said above on rights and users" if isinstance(error, PermissionError) else ""
        return Check(what, ok=False, because=f"{path}: {error.strerror}", do_this=remedy)
    return Check(what, ok=True, because=f"{path} can be read")


KERNEL_FILES: Mapping[str, str] = {
    "schedstat": "whether a thread ran",
    "sched": "how long a thread has slept",
    "syscall": "what a thread waits in",
    "wchan": "where in the kernel a thread waits",
    "children": "quick listing of children",
}
"""Files that a kernel may be built without (CONFIG_SCHED_INFO, CONFIG_SCHED_DEBUG, CONFIG_HAVE_ARCH_TRACEHOOK,
CONFIG_KALLSYMS, CONFIG_PROC_CHILDREN), and what mpmon knows from them."""


def _checks_of_machine(proc: Path) -> Iterator[Check]:
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
    return Check("kernel's files", ok=False, because=because, do_this="nothing: mpmon says less about sleeps")


def _kernel_file(proc: Path, name: str) -> Path:
    return proc / "self/task" / str(os.getpid()) / name if proc == PROC else proc / "self" / name


def check_shared_memory(proc: Path) -> Check:
    """Size of /dev/shm, where tensors travel between processes."""
    mounts = _lines(proc / "self/mounts") or _lines(proc / "mounts")
    if not any(line.split()[1:2] == ["/dev/shm"] for line in mounts):
        return Check("/dev/shm", ok=False, because="not mounted", do_this="mount -t tmpfs tmpfs /dev/shm")
    if proc != PROC:
        return Check("/dev/shm", ok=None, because="mounted, size not asked for")
    size = shutil.disk_usage("/dev/shm")
    because = f"{_gib(size.total)} in all, {_gib(size.free)} free"
    if size.total < SMALL_SHARED_MEMORY or size.free < size.total // 20:
        remedy = "docker run --shm-size=8g (or --ipc=host); on a machine of your own see what `ls -l /dev/shm` shows"
        return Check("/dev/shm", ok=False, because=f"{because}: little for DataLoader workers", do_this=remedy)
    return Check("/dev/shm", ok=True, because=because)


def check_gpu() -> Check:
    """Ask NVIDIA's driver once, as a look at a job does: in a process that is ended when the driver blocks."""
    look = look_once(DEADLINE_S)
    troubled = [f"GPU {gpu.index}: {gpu.problem}" for gpu in look.gpus if gpu.problem]
    because = "; ".join(filter(None, (look.problem, *troubled)))
    if look.harmless:
        return Check(NVIDIA, ok=None, because=f"{because}; GPU columns stay empty, all else works")
    if because:
        return Check(NVIDIA, ok=False, because=because)
    many = f"{len(look.gpus)} GPU{'' if len(look.gpus) == 1 else 's'}"
    return Check(NVIDIA, ok=True, because=f"{many}, driver {look.driver}, asked in {look.seconds:.2g} s")


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
    """What the terminal says about itself; NO_COLOR is the user's word and wins."""
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


def _ask(command: Sequence[str]) -> tuple[int | None, str]:
    """Exit status and output of a command; `None` when it did not end in time or could not start."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_S,
            check=False,
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
    except subprocess.TimeoutExpired:
        return None, f"no answer within {DEADLINE_S:g} s"
    except OSError as error:
        return -1, error.strerror or "it cannot be started"
    return done.returncode, done.stdout.decode(errors="replace")


def _first_line(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[0].removeprefix("Error: ") if lines else "it said nothing"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
