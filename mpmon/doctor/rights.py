"""What mpmon itself may read: capabilities, security modules, namespaces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mpmon.doctor.check import PROC, Check
from mpmon.doctor.stacks import check_own_child
from mpmon.probes.native.samples import NotSampled, check_sampling
from mpmon.probes.rights import (
    CONTAINER_REMEDY,
    NOT_YAMA,
    YAMA_REMEDY,
    Credentials,
    read_credentials,
    user_name,
    yama_scope,
)

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of <linux/proc_ns.h>: the namespace of the machine itself."""


def checks_of_rights(proc: Path) -> Iterator[Check]:
    """All checks of this module, and whether they are enough to read a child of ours."""
    me = read_credentials("self", proc)
    if me is None:
        yield Check("own rights", ok=None, because=f"{proc}/self/status cannot be read", do_this="mount /proc")
        return
    yield check_capability(me)
    yield check_yama(me, proc)
    yield check_seccomp(me)
    yield check_namespace(me, proc)
    yield check_own_child(proc)
    yield check_samples(proc)


def check_capability(me: Credentials) -> Check:
    """With CAP_SYS_PTRACE all processes can be read, without it only those of the same user (capabilities(7))."""
    user = user_name(me.uids[0]) if me.uids else "unknown user"
    if me.may_trace_all:
        return Check("other users' processes", ok=True, because=f"running as {user} with CAP_SYS_PTRACE")
    if me.uids and me.uids[0] == 0:
        because, remedy = f"running as {user} without CAP_SYS_PTRACE, as in a container", CONTAINER_REMEDY
    else:
        because, remedy = f"running as {user} without CAP_SYS_PTRACE", "run as the job's user, or as root"
    return Check("other users' processes", ok=False, because=because, do_this=remedy)


def check_yama(me: Credentials, proc: Path) -> Check:
    """What the Yama security module allows (kernel: admin-guide/LSM/Yama)."""
    scope = yama_scope(proc)
    if scope == NOT_YAMA:
        return Check("Yama", ok=True, because="does not restrict (no Yama, or ptrace_scope is 0)")
    if scope == 3:
        because = "ptrace_scope is 3: nobody may trace"
        return Check("Yama", ok=False, because=because, do_this="set another value at boot")
    if me.may_trace_all:
        return Check("Yama", ok=True, because=f"ptrace_scope is {scope}, which CAP_SYS_PTRACE overrides")
    who = "only ancestors may read a process" if scope == 1 else "only CAP_SYS_PTRACE may read a process"
    return Check("Yama", ok=False, because=f"ptrace_scope is {scope}: {who}", do_this=YAMA_REMEDY)


def check_seccomp(me: Credentials) -> Check:
    """A system call filter on mpmon itself, which may or may not forbid what mpmon needs."""
    if me.seccomp is None:
        return Check("seccomp", ok=None, because="this kernel does not say")
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
    because = "mpmon is in a pid namespace (container): it sees only the processes in it"
    return Check(name, ok=None, because=because, do_this=remedy)


def check_samples(proc: Path) -> Check:
    """Whether perf can sample C and C++ frames of a running thread: tried on mpmon itself."""
    name = "C frames of running threads"
    if proc != PROC:
        return Check(name, ok=None, because=f"not tried: {proc} is not this machine's /proc")
    try:
        check_sampling()
    except NotSampled as problem:
        return Check(name, ok=False, because=problem.why, do_this=problem.remedy)
    return Check(name, ok=True, because="perf samples them")
