"""Agents in a step of the Slurm job, beside those that run: `srun --jobid JOB --overlap`, which carries all of them.

What was found out about it (srun(1) of Slurm 22.05 to 26.05, tried with 22.05):

- Without `--overlap` it waits for ever, silently.
- Every count has to be said, and variables that the caller inherited from a job must go (`SLURM_NTASKS`, `SLURM_MEM_PER_NODE`),
  or there are two agents a node, or memory is refused.
- Lines are cut at 1 kB, with `--unbuffered` anywhere; with `--label` each begins with the number of its task, and tasks are
  numbered in the order of nodes.
- `--gres=none` and `--mem=0`: the step asks for nothing that the job's own steps have.
- It says nothing for half a minute when a node dies: the beat of agents tells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from mpmon.errors import CannotTell, UsageError
from mpmon.nodes.transports import Carrier, Trouble, agent_words, asked, common_trouble, last_line, must_have

JOB = re.compile(r"(\d+(?:_\d+)?)(?:\.(\d+|batch))?\Z")
"""A job, or a task of an array of them, and one of its steps."""

KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS"})
"""Variables of Slurm that tell where it is, and not what somebody wants of it."""

_ENDED = (
    "Invalid job id",
    "already completing or completed",
    "CANCELLED AT",
    "Job has been cancelled",
    "has expired",
    "Expired or invalid job",
)

_ELSEWHERE = "Run mpmon where squeue works, or name the machines: --nodes"


class Slurm:
    """The nodes of one job."""

    at_once = 1

    def __init__(self, job: str, program: str | None = None) -> None:
        """`program` is the mpmon of the nodes.

        Raises:
            UsageError: this is no name of a job.
        """
        found = JOB.match(job)
        if not found:
            raise UsageError(f"{job} is not a Slurm job.", "Give its number, or one of its steps: 7, 7.0, 7_1")
        self._job, self._step = found[1], found[2]
        self._program = program
        self.title = f"Slurm job {job}"

    def carriers(self) -> list[Carrier]:
        """One srun for all nodes.

        Raises:
            UsageError: Slurm's programs are not here.
            CannotTell: the job is not known, or does not run.
        """
        return self.added(())

    def added(self, known: Collection[str]) -> list[Carrier]:
        """One srun for all nodes that are not known: a job may grow (scontrol(1), "update job").

        Raises:
            UsageError: as `carriers`.
            CannotTell: as `carriers`.
        """
        srun = must_have("srun", _ELSEWHERE)
        number, everywhere = self._nodes()
        nodes = tuple(name for name in everywhere if name not in known)
        if not nodes:
            return []
        agent = agent_words(self._program, "--slurm", f"{number}.{self._step}" if self._step else number)
        count = len(nodes)
        where = (f"--nodelist={','.join(nodes)}",) if len(nodes) < len(everywhere) else ()
        words = (
            srun, f"--jobid={number}", *where, "--overlap", "--mem=0", "--gres=none", f"--nodes={count}", f"--ntasks={count}",
            "--ntasks-per-node=1", "--cpus-per-task=1", "--kill-on-bad-exit=0", "--no-kill", "--wait=0", "--label",
            "--chdir=/", "--export=ALL", "--job-name=mpmon", *agent,
        )  # fmt: skip
        return [Carrier(words, nodes, labelled=True, environment=_environment())]

    def _nodes(self) -> tuple[str, tuple[str, ...]]:
        """The job's own number, and its machines."""
        must_have("squeue", _ELSEWHERE)
        told = asked(["squeue", "--noheader", f"--jobs={self._job}", "--format=%A|%T|%N"], _environment())
        if told.returncode:
            raise self._refused(told.stderr)
        rows = [line.strip().split("|") for line in told.stdout.splitlines() if line.count("|") == 2]
        running = [row for row in rows if row[1] == "RUNNING"]
        if len(running) > 1:
            raise UsageError(
                f"Slurm job {self._job} is an array of which {len(running)} tasks run.", f"Name one: {self._job}_1"
            )
        if not running:
            state = f"is {rows[0][1]}" if rows else "is not running any more"
            raise CannotTell(f"Slurm job {self._job} {state}.", "List those that run: squeue --me --states=RUNNING")
        number, _, names = running[0]
        hosts = asked(["scontrol", "show", "hostnames", names], _environment())
        nodes = tuple(hosts.stdout.split())
        if hosts.returncode or not nodes:
            raise CannotTell(f"the nodes of Slurm job {self._job} cannot be listed: {last_line(hosts.stderr)}.")
        return number, nodes

    def _refused(self, said: str) -> CannotTell:
        if "Invalid job id" in said:
            return CannotTell(f"there is no Slurm job {self._job}.", "List those that run: squeue --me")
        return CannotTell(f"Slurm gives no information about job {self._job}: {last_line(said)}.", "Try: squeue")

    def trouble(self, node: str, said: str) -> Trouble | None:
        """What srun complains of."""
        if "Access/permission denied" in said or "Invalid user" in said:
            return Trouble("may not be accessed: the job belongs to another user", "Ask its owner, or run as root.")
        if any(words in said for words in _ENDED):
            return Trouble("has ended its part of the job", final=True)
        if "error-configuring-interconnect" in said or "interconnect" in said:
            return Trouble("does not take a second step over several nodes", "Use ssh where you may: --nodes")
        return common_trouble(node, said)

    def commands(self, node: str) -> tuple[str, ...]:
        """A shell beside the job, and how an operator takes the node out of service; jobs that run there go on."""
        return (
            f"srun --jobid={self._job} --overlap --nodelist={node} --nodes=1 --ntasks=1 --pty bash",
            f"scontrol update nodename={node} state=drain reason='hung in job {self._job}'",
        )


def _environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "SRUN_", "SBATCH_")) or name in KEPT
    }  # fmt: skip
