"""The first finding in a few short words, for places that take no sentences: variables of a command, labels of a
metric.

The job chooses some of these words (functions, files, host names), and they go where shells and queries may interpret
them. So only letters, digits and a few marks without a meaning there are kept, up to a length limit.
"""

from __future__ import annotations

import re

from mpmon.diagnosis.findings import Finding, Observation
from mpmon.diagnosis.hosts import Hosts
from mpmon.model import Row, Snapshot

LONGEST = 80
"""Longest word, in characters."""

JOB_IDS = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")
"""Variables in which a launcher names its job, the better name first."""

UNNAMED = frozenset({"", "none"})
"""What torchrun writes into its variable when nobody named the job (torch/distributed/run.py)."""

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.:@/+ -]+")


class Brief(Row, frozen=True, kw_only=True):
    """The first finding and its first suspect; unknown fields are empty."""

    cause: str = ""
    certainty: str = ""
    host: str = ""
    rank: str = ""
    role: str = ""
    pid: str = ""
    """The suspect's pid on its own machine."""
    function: str = ""
    at: str = ""
    """The file without its folder, and the line: `train.py:29`."""


def brief(observation: Observation) -> Brief:
    """All fields are empty for a job without a finding."""
    findings = observation.diagnosis.findings
    return _of(findings[0], observation.snapshot) if findings else Brief()


def _of(finding: Finding, snapshot: Snapshot) -> Brief:
    made = {"cause": finding.cause, "certainty": finding.certainty.value, "host": snapshot.host}
    for suspect in finding.suspects[:1]:
        made |= {"role": suspect.role, "pid": str(Hosts(snapshot).number(suspect.pid))}
        made |= {"host": suspect.host} if suspect.host else {}
        made |= {"rank": str(suspect.rank)} if suspect.rank is not None else {}
        if suspect.frame:
            file = suspect.frame.file.rpartition("/")[2]
            made |= {"function": suspect.frame.function, "at": f"{file}:{suspect.frame.line}"}
    return Brief(**{name: plain(word) for name, word in made.items()})


def job_id(snapshot: Snapshot) -> str:
    """The launcher's name for the job, else the pid of its root; a job on several machines has no such pid."""
    for name in JOB_IDS:
        for process in snapshot.processes:
            word = plain((process.environment or {}).get(name, ""))
            if word not in UNNAMED:
                return word
    return "" if snapshot.nodes else str(snapshot.root_pid)


def plain(text: str) -> str:
    """A sanitised word: `_` for each run of other characters, and no leading dash, which would make it an option."""
    return _NOT_PLAIN.sub("_", text[:LONGEST]).lstrip("- ").rstrip()
