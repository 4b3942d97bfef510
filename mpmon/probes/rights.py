"""Who may read whom, from facts of /proc, in words a user understands.

Reading another process's memory takes the permission PTRACE_MODE_ATTACH_REALCREDS (process_vm_readv(2)).
The rules, in the kernel's order (ptrace(2), "Ptrace access mode checking"): the same user, else CAP_SYS_PTRACE; the target
is dumpable, else CAP_SYS_PTRACE; the target's capabilities are among ours, else CAP_SYS_PTRACE; then what Yama says.
py-spy's own words ("Try running again with sudo") mean nothing in a container, so these facts come first.
"""

from __future__ import annotations

import errno
import os
import pwd
from dataclasses import dataclass, field
from pathlib import Path

from mpmon.probes.files import read
from mpmon.probes.maps import MAPS_LIMIT
from mpmon.probes.status import status_fields

CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON = 19, 21, 38
"""<linux/capability.h>; the last since Linux 5.8."""

NOT_YAMA = 0
"""`ptrace_scope` of a kernel without Yama."""

CONTAINER_REMEDY = (
    "in Docker start it with --cap-add SYS_PTRACE; in Kubernetes: kubectl debug --profile=general --target=CONTAINER "
    "POD --image=IMAGE; or look from the host by its pid there"
)
PERF_OF_OWN_USER = 2
"""The largest `perf_event_paranoid` with which a user may sample the code of processes of the same user."""

YAMA_REMEDY = "run mpmon as root, or: sudo sysctl kernel.yama.ptrace_scope=0"


@dataclass(frozen=True)
class Credentials:
    """What proc_pid_status(5) says about one process, as far as rights go."""

    name: str = ""
    state: str = ""
    ppid: int = 0
    tracer_pid: int = 0
    uids: tuple[int, ...] = ()
    """Real, effective, saved, file system."""
    permitted: int = 0
    effective: int = 0
    seccomp: int | None = None
    """0 none, 1 strict, 2 filter."""
    namespace_pids: tuple[int, ...] = field(default=())
    """Its pid in each namespace from ours inwards."""

    @property
    def may_trace_all(self) -> bool:
        """It has CAP_SYS_PTRACE."""
        return bool(self.effective >> CAP_SYS_PTRACE & 1)

    @property
    def may_sample_all(self) -> bool:
        """It has CAP_PERFMON, or CAP_SYS_ADMIN, which includes it."""
        return bool(self.effective & (1 << CAP_PERFMON | 1 << CAP_SYS_ADMIN))


def read_credentials(pid: int | str, proc: Path) -> Credentials | None:
    """The credentials of a pid or `self`; `None` if there is no such process."""
    try:
        text = (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return parse_status(text)


def parse_status(text: str) -> Credentials:
    """The text of proc_pid_status(5)."""
    fields = status_fields(text)
    return Credentials(
        name=fields.get("Name", ""),
        state=fields.get("State", "")[:1],
        ppid=int(fields.get("PPid", "0")),
        tracer_pid=int(fields.get("TracerPid", "0")),
        uids=_numbers(fields.get("Uid")),
        permitted=int(fields.get("CapPrm", "0"), 16),
        effective=int(fields.get("CapEff", "0"), 16),
        seccomp=int(fields["Seccomp"]) if "Seccomp" in fields else None,
        namespace_pids=_numbers(fields.get("NSpid")),
    )


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(word) for word in (text or "").split())


def yama_scope(proc: Path) -> int:
    """`/proc/sys/kernel/yama/ptrace_scope`, 0 if the kernel has no Yama (kernel: admin-guide/LSM/Yama)."""
    try:
        return int((proc / "sys/kernel/yama/ptrace_scope").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return NOT_YAMA


def is_dumpable(pid: int, proc: Path, owner: int) -> bool | None:
    """Whether the process may be read by its own user; `None` if that does not show.

    The files in /proc/PID of a process that is not dumpable belong to root (proc_pid(5)); for root's own it does not
    show.
    """
    if owner == 0:
        return None
    try:
        return (proc / str(pid) / "environ").stat().st_uid != 0
    except OSError:
        return None


def is_python(pid: int, proc: Path) -> bool | None:
    """Whether its executable or a mapped library is a Python; `None` if neither may be read."""
    try:
        if "python" in os.readlink(proc / str(pid) / "exe").rpartition("/")[2]:
            return True
        maps = read(str(proc / str(pid) / "maps"), MAPS_LIMIT)
    except OSError:
        return None
    return b"libpython" in maps


def user_name(uid: int) -> str:
    """The name of a user, or its number if it has no name (containers)."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def why_unreadable(pid: int, proc: Path = Path("/proc"), otherwise: str = "") -> str:
    """One sentence on why the stacks of a process could not be read, with what to do about it; `otherwise` is what to do if
    no reason is found.
    """
    target = read_credentials(pid, proc)
    if target is None:
        return f"pid {pid} has ended"
    if target.state in {"Z", "X"}:
        return f"pid {pid} is a zombie: it has ended and its parent, pid {target.ppid}, has not reaped it"
    refusal = why_refused(pid, proc)
    if refusal:
        return refusal
    if is_python(pid, proc) is False:
        return f"pid {pid} ({target.name}) is not a Python process, or its Python cannot be recognised"
    if target.tracer_pid:
        return f"pid {pid} is held by a tracer, pid {target.tracer_pid}: detach it"
    otherwise = otherwise or f"try `mpmon doctor {pid}`"
    return _suspect_seccomp(proc) or f"mpmon found no reason why it cannot read pid {pid}: {otherwise}"


def why_refused(pid: int, proc: Path = Path("/proc")) -> str:
    """The rule that forbids reading a process's memory, with the remedy; empty if none does."""
    target, reader = read_credentials(pid, proc), read_credentials("self", proc)
    if target is None or reader is None or not target.uids or not reader.uids:
        return ""
    scope = yama_scope(proc)
    if scope == 3:
        return "Yama forbids all tracing until the next boot (ptrace_scope is 3): set another value at boot"
    if reader.may_trace_all:
        return ""
    return _refusal_without_capability(pid, proc, target, reader, scope)


def _refusal_without_capability(pid: int, proc: Path, target: Credentials, reader: Credentials, scope: int) -> str:
    owner = target.uids[1]
    if any(uid != reader.uids[0] for uid in target.uids[:3]):
        user = user_name(owner)
        me = user_name(reader.uids[0])
        remedy = "run mpmon as root" if owner == 0 else f"run mpmon as {user} or as root"
        return f"pid {pid} belongs to {user} and mpmon runs as {me}: {remedy}"
    if is_dumpable(pid, proc, owner) is False:
        return f"pid {pid} has cleared its dumpable flag (setuid, or hardened): run mpmon as root"
    if target.permitted & ~reader.permitted:
        return f"pid {pid} has capabilities that mpmon lacks: run mpmon with the same ones, or {CONTAINER_REMEDY}"
    if scope == 2:
        return f"Yama lets only CAP_SYS_PTRACE read others (ptrace_scope is 2): {YAMA_REMEDY}"
    if scope == 1:
        return f"Yama lets only ancestors read a process (ptrace_scope is 1): {YAMA_REMEDY}"
    return ""


def _suspect_seccomp(proc: Path) -> str:
    """A filter only shows that it exists, not what it forbids, so it is the last thing to suspect."""
    reader = read_credentials("self", proc)
    if reader is None or reader.seccomp != 2:
        return ""
    return f"a seccomp filter, probably a container's, seems to forbid process_vm_readv(2): {CONTAINER_REMEDY}"


def perf_paranoid(proc: Path) -> int | None:
    """`/proc/sys/kernel/perf_event_paranoid`, what perf may do for ordinary users; `None` if that is unknown."""
    try:
        return int((proc / "sys/kernel/perf_event_paranoid").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def why_unsampled(problem: OSError, proc: Path = Path("/proc")) -> tuple[str, str]:
    """Why perf_event_open(2) was refused, and what to do about it ("ERRORS" there; kernel: admin-guide/perf-security)."""
    me = read_credentials("self", proc) or Credentials()
    if problem.errno == errno.EACCES:
        return _perf_denied(perf_paranoid(proc), me)
    if problem.errno == errno.EPERM and me.seccomp:
        why = "the system call filter (seccomp) of mpmon's container forbids perf_event_open (EPERM)"
        return why, "in Docker start it with --cap-add PERFMON; or look from the host"
    if problem.errno == errno.EPERM:
        why = "the kernel forbids perf_event_open (EPERM), or has too little locked memory for it"
        return why, "see the kernel's log, and sysctl kernel.perf_event_mlock_kb: it takes 68 for each thread"
    if problem.errno == errno.ENOSYS:
        why = "there is no perf_event_open (ENOSYS): the kernel was built without it, or a system call filter hides it"
        return why, "in a container, look from the host"
    if problem.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return f"this kernel has no clock that samples ({errno.errorcode[problem.errno]})", ""
    return f"perf_event_open: {(problem.strerror or 'refused').lower()}", ""


def _perf_denied(paranoid: int | None, me: Credentials) -> tuple[str, str]:
    if paranoid is not None and paranoid > PERF_OF_OWN_USER and not me.may_sample_all:
        why = f"perf_event_paranoid is {paranoid} and mpmon has no CAP_PERFMON (EACCES)"
        return why, f"run mpmon as root, or: sudo sysctl kernel.perf_event_paranoid={PERF_OF_OWN_USER}"
    why = "the kernel denies perf_event_open (EACCES): the process is of another user, or a security module or filter forbids it"
    return why, "run mpmon as the job's user, or as root"
