"""Which of the jobs on the nodes to watch."""

from __future__ import annotations

from collections import Counter

from mpmon.errors import CannotTell, UsageError
from mpmon.nodes.here import BATCH
from mpmon.nodes.members import NodeState
from mpmon.nodes.sentences import listed, names


def chosen(nodes: list[NodeState]) -> str:
    """The key of the job to watch: the job on most nodes, of these the one with most processes.

    Raises:
        CannotTell: there is no job.
        UsageError: several jobs cannot be told apart.
    """
    jobs = [job for node in nodes for job in node.jobs]
    if not jobs:
        raise CannotTell(f"no job runs on {names(nodes)}.", "Is it over, or on other nodes?")
    for node in nodes:
        unnamed = [job for job in node.jobs if not job.key]
        if len(unnamed) > 1 and len(unnamed) == len(node.jobs):
            raise UsageError(
                f"{len(unnamed)} jobs run on {node.name}: {listed(job.command for job in unnamed)}.",
                "Watch one of them there: mpmon PID",
            )
    weights: Counter[str] = Counter()
    for node in nodes:
        weights.update({job.key: (1 << 32) + job.processes for job in node.jobs if not job.key.endswith(BATCH)})
    if not weights:
        weights.update({job.key: 1 for job in jobs})
    (best, most), *others = weights.most_common()
    ties = [key for key, weight in others if weight >> 32 == most >> 32]
    if ties:
        named = listed(key or "another one" for key in (best, *ties))
        raise UsageError(f"several jobs run on these nodes: {named}.", "Name fewer nodes, or a step: --slurm JOB.STEP")
    return best
