"""Observations to numbers with labels. Pure.

Names and units follow Prometheus (https://prometheus.io/docs/practices/naming/).  The label is
`job_id`, since `job` and `instance` belong to Prometheus.  No label has a pid, a path or a command line: each new value would
be a new series. Series per rank are bounded by `MOST_RANKS`, and there is one finding at a time.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

from mpmon.diagnosis import ipc
from mpmon.diagnosis.explanation.brief import brief, job_id, plain
from mpmon.diagnosis.findings import Observation, TrendPoint, Verdict
from mpmon.diagnosis.ipc.names import RESULTS
from mpmon.diagnosis.roles.role import MAIN, RANK
from mpmon.diagnosis.throughput.rates import taken

MOST_RANKS = 1024
"""The number of ranks with their own series; these are the first ones."""

SPINNING = "gpu-spinning"
"""The remark about devices whose kernels only wait."""


class Family(NamedTuple):
    """One metric."""

    name: str
    """Without the suffix `_total` of a counter, or `_info` of an info."""
    kind: Literal["gauge", "counter", "info"]
    help: str
    labels: tuple[str, ...]
    values: dict[tuple[str, ...], float]
    """By the values of the labels."""


class Samples:
    """A fold over rounds: some numbers only grow."""

    def __init__(self, job: str | None = None) -> None:
        """`job` is the user's name for the job; by default that of its launcher, or its pid."""
        self._job = plain(job) if job else None
        self._batches: Counter[str] = Counter()
        """By rank."""
        self._taken: dict[tuple[str, tuple[int, ...]], int] = {}
        """Items taken from each queue by the last round."""

    def add(self, observation: Observation, cpu_s: float) -> list[Family]:
        """The metrics after this round; the second argument is mpmon's own CPU time."""
        # A job that has ended keeps its name.
        self._job = job = self._job or job_id(observation.snapshot) or plain(observation.snapshot.host)
        heads = _heads(observation)
        if observation.trend:
            self._count(observation, observation.trend[-1], heads)
        whole = (
            []
            if observation.diagnosis.elsewhere
            else [_verdict(observation), _hang(observation), _finding(observation)]
        )
        found = [
            *whole, _still(observation, heads), self._taken_batches(), _spinning(observation, heads), _nodes(observation),
            Family("mpmon_last_look_timestamp_seconds", "gauge", "When mpmon last sampled the job, seconds since the epoch.",
                   (), {(): observation.snapshot.taken_at}),
            Family("mpmon_look_cpu_seconds", "counter", "CPU time that mpmon has used.", (), {(): cpu_s}),
        ]  # fmt: skip
        return [_of_job(family, job) for family in found]

    def _count(self, observation: Observation, moment: TrendPoint, heads: dict[int, str]) -> None:
        """The batches that each rank took since the previous round. A new queue counts from now on."""
        results = {view.id for view in ipc.of(observation).queues if (view.name or "").startswith(RESULTS)}
        now = taken(moment, results)
        for key, items in now.items():
            rank = heads.get(key[1][0]) if len(key[1]) == 1 else None
            if rank is not None:
                self._batches[rank] += max(0, items - self._taken.get(key, items))
        self._taken = now

    def _taken_batches(self) -> Family:
        values = {(rank,): float(items) for rank, items in list(self._batches.items())[:MOST_RANKS]}
        return Family("mpmon_rank_batches", "counter", "Batches that a rank took from the workers of its DataLoader "
                      "while mpmon watched.", ("rank",), values)  # fmt: skip


def _of_job(family: Family, job: str) -> Family:
    values = {(job, *labels): value for labels, value in family.values.items()}
    return family._replace(labels=("job_id", *family.labels), values=values)


def _heads(observation: Observation) -> dict[int, str]:
    """Ranks by pid; in a job without ranks the main program, whose rank is empty."""
    views = observation.diagnosis.processes
    found = {view.pid: str(view.rank) for view in views if view.rank is not None and view.kind == RANK}
    return dict(list(found.items())[:MOST_RANKS]) or {view.pid: "" for view in views if view.kind == MAIN}


def _verdict(observation: Observation) -> Family:
    values = {(each.value,): float(each is observation.diagnosis.verdict) for each in Verdict}
    return Family(
        "mpmon_verdict", "gauge", "What mpmon says of the job: 1 for the verdict in effect.", ("verdict",), values
    )


def _hang(observation: Observation) -> Family:
    found = observation.diagnosis
    hung = found.verdict is Verdict.HUNG
    seconds = max(0.0, observation.snapshot.taken_at - found.since) if hung and found.since is not None else 0.0
    return Family(
        "mpmon_hang_seconds", "gauge", "For how long the job has hung; 0 while it does not.", (), {(): seconds}
    )


def _finding(observation: Observation) -> Family:
    found = brief(observation)
    words = {
        "cause": found.cause, "certainty": found.certainty, "host": found.host, "rank": found.rank, "role": found.role,
        "function": found.function, "at": found.at,
    }  # fmt: skip
    return Family("mpmon_finding", "info", "The first finding: why the job hangs, and its root blocker.", tuple(words),
                  {tuple(words.values()): 1.0} if found.cause else {})  # fmt: skip


def _still(observation: Observation, heads: dict[int, str]) -> Family:
    now = observation.snapshot.taken_at
    values = {
        (heads[view.pid],): max(0.0, now - view.still_since) if view.still_since is not None else 0.0
        for view in observation.diagnosis.processes if view.pid in heads
    }  # fmt: skip
    return Family(
        "mpmon_rank_still_seconds", "gauge", "For how long the main thread of a rank has not run.", ("rank",), values
    )


def _spinning(observation: Observation, heads: dict[int, str]) -> Family:
    spins = {uuid for remark in observation.diagnosis.remarks if remark.topic == SPINNING for uuid in remark.gpu_uuids}
    devices = {gpu.uuid: str(gpu.index) for gpu in observation.snapshot.gpus}
    values = {
        (heads[row.pid], devices[row.gpu_uuid]): float(row.gpu_uuid in spins)
        for row in observation.snapshot.gpu_processes if row.pid in heads and row.gpu_uuid in devices
    }  # fmt: skip
    return Family("mpmon_gpu_spinning", "gauge", "1 where the device of a rank is busy with kernels that only wait.",
                  ("rank", "gpu"), values)  # fmt: skip


def _nodes(observation: Observation) -> Family:
    """Only for a job that is watched on several machines."""
    nodes = observation.snapshot.nodes
    silent = sum(node.problem is not None for node in nodes)
    values = {("answers",): float(len(nodes) - silent), ("silent",): float(silent)} if nodes else {}
    return Family("mpmon_nodes", "gauge", "Machines of the job, by whether they answer.", ("state",), values)
