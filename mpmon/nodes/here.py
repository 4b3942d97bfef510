"""Which jobs run on an agent's machine, and the key by which all machines identify the same job."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from mpmon.diagnosis.explanation.brief import UNNAMED
from mpmon.jobs import running_jobs
from mpmon.nodes.wire import JobHere
from mpmon.printable import command_line, in_bounds
from mpmon.probes.machine import Candidate, Machine
from mpmon.probes.rights import why_refused
from mpmon.probes.standstill import persistently

MOST_WORDS = 200
"""Longest command shown, in characters."""

BATCH = "batch"
"""The step of a Slurm job's script, which has no number."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def machine_id() -> str:
    """The boot of this machine and our pid namespace: what a pid means (random(4), pid_namespaces(7))."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def rights(pids: Sequence[int]) -> str | None:
    """What forbids reading the memory of some of these processes, with the remedy; empty if nothing does, `None`
    without processes.

    A process that has ended forbids nothing.
    """
    refused = [why for pid in pids if (why := why_refused(pid))]
    if not refused:
        return "" if pids else None
    return refused[0] if len(refused) == len(pids) else f"{len(refused)} of {len(pids)} ranks: {refused[0]}"


def job_of(pid: int) -> tuple[JobHere, ...]:
    """The job below the given process; none if it does not exist."""
    return persistently(lambda: _job_of(Machine(), pid))


def jobs_here() -> tuple[JobHere, ...]:
    """All jobs that look like PyTorch or multiprocessing, each with the rendezvous of its ranks.

    Ranks started by a shell or mpirun(1) look like a job each; their rendezvous makes them one.
    """
    roots = [job.root_pid for job in running_jobs()]
    return persistently(lambda: _jobs_below(Machine(), roots))


def slurm_steps(job: str, step: str = "") -> tuple[JobHere, ...]:
    """The steps of a Slurm job that have processes here, or only the given step; never this agent's own step.

    They are known from Slurm's own variables, which srun(1) sets for each task; reading them needs no more rights than
    sampling the task. All tasks of a step are below its slurmstepd.
    """
    return persistently(lambda: _steps(Machine(), job, step))


def _job_of(machine: Machine, pid: int) -> tuple[JobHere, ...]:
    process = machine.process(pid)
    return (_job(machine, process, ""),) if process else ()


def _jobs_below(machine: Machine, roots: list[int]) -> tuple[JobHere, ...]:
    below: dict[int, list[Candidate]] = {}
    for process in machine.processes():
        below.setdefault(process.ppid, []).append(process)
    found: dict[str, list[Candidate]] = {}
    for process in filter(None, map(machine.process, roots)):
        found.setdefault(_rendezvous(below, process), []).append(process)
    unnamed = found.pop("", [])
    named = [_job(machine, _top(machine, members), key) for key, members in found.items()]
    return (*named, *(_job(machine, process, "") for process in unnamed))


def _steps(machine: Machine, job: str, step: str) -> tuple[JobHere, ...]:
    found = _members(machine, job)
    named = {name: members for name, members in found.items() if not step or name == step}
    return tuple(_job(machine, _top(machine, members), f"{job}.{name}") for name, members in sorted(named.items()))


def _members(machine: Machine, job: str) -> dict[str, list[Candidate]]:
    """Processes by step."""
    ours = machine.ancestors(os.getpid())
    own_step = os.environ.get("SLURM_STEP_ID") if os.environ.get("SLURM_JOB_ID") == job else None
    found: dict[str, list[Candidate]] = {}
    for process in machine.processes():
        if process.is_kernels or process.pid in ours or process.is_mpmon:
            continue
        said = process.environment
        step = said.get("SLURM_STEP_ID", BATCH)
        if said.get("SLURM_JOB_ID") == job and step != own_step:
            found.setdefault(step, []).append(process)
    return found


def _top(machine: Machine, members: list[Candidate]) -> Candidate:
    """The lowest process that most of these are, or descend from; one of them may have been reparented to init when a
    launcher ended.
    """
    pids = {process.pid for process in members}
    tops = [process for process in members if process.ppid not in pids]
    above = Counter(pid for process in tops for pid in machine.ancestors(process.pid))
    most = [process for process in map(machine.process, above) if process and 2 * above[process.pid] > len(tops)]
    return max(most, key=lambda process: len(machine.ancestors(process.pid)))


def _job(machine: Machine, root: Candidate, key: str) -> JobHere:
    command = in_bounds(command_line(root.cmdline or (root.name,)), MOST_WORDS)
    return JobHere(root=root.pid, key=key, processes=machine.size(root.pid), command=command)


def _rendezvous(below: dict[int, list[Candidate]], root: Candidate) -> str:
    """The name that torchrun gives the run; else the port and world size of its ranks; empty if no process has either.

    An elastic job changes its port and size whenever it grows or shrinks, but keeps its name. The first machine's name
    is not included, since it differs between machines (`n1`, `10.0.0.1`).
    """
    left = [root]
    while left:
        process = left.pop()
        said = process.environment
        if "RANK" in said and "MASTER_PORT" in said:
            is_named = said.get("TORCHELASTIC_RUN_ID", "") not in UNNAMED
            names = ("TORCHELASTIC_RUN_ID",) if is_named else ("MASTER_PORT", "WORLD_SIZE")
            return " ".join(f"{name}={said[name][:40]}" for name in names if said.get(name))
        left += below.get(process.pid, [])
    return ""
