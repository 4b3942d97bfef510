"""Part nodes: one job on many machines: what the front end costs, and of replayed ones whether it names the right rank.

Up to `MOST_REAL` nodes the agents are real ones of this machine, each with a rank of its own, behind a program that stands in for
ssh(1), which waits for its input.  Beyond that recorded machines take themselves for others (`tests.nodes.many`), and
what their agents would say is read by the real front end, without the making of it, in a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from mpmon.diagnosis.findings import Observation
from mpmon.nodes import front, wire
from mpmon.nodes.front import NodesWatch
from tests.benchmarks import tools
from tests.benchmarks.job import ROOT
from tests.benchmarks.table import Table
from tests.benchmarks.terminal import cpu_s
from tests.nodes.many import ON_A_NODE, Names, Simulated

if TYPE_CHECKING:
    from tests.benchmarks.rig import Rig

MOST_REAL = 128
"""Agents of some 40 MiB each that one machine bears."""

ROUNDS = 3
"""Of a recorded machine."""

RANK = "print(flush=True); input()"


def measure(rig: Rig) -> list[Table]:
    """Measure real agents and replayed ones, each on the sizes that are theirs."""
    real = [size for size in rig.sizes if size <= MOST_REAL]
    replayed = [size for size in rig.sizes if size > MOST_REAL]
    return [*([_real(rig, real)] if real else []), *([_replayed(replayed)] if replayed else [])]


# Real agents


def _real(rig: Rig, sizes: list[int]) -> Table:
    table = Table(
        "Real agents on this machine",
        f"A report, then a watch of {rig.seconds:.0f} s with a look a second; all agents share these CPUs.",
        ("nodes", "report s", "answer", "front CPU ms/s", "front RSS MiB", "CPU ms/s an agent",
         "RSS MiB an agent", "left"),
    )  # fmt: skip
    for nodes in sizes:
        with tempfile.TemporaryDirectory(dir=rig.setting.folder) as folder, _ranks(nodes, Path(folder)) as command:
            began = time.monotonic()
            said = subprocess.run([*command, "--once", "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
            seconds = time.monotonic() - began
            answered = sum("problem" not in node for node in json.loads(said.stdout)["nodes"])
            watched = _watched([*command, "--plain"], nodes, rig.seconds)
        table.rows.append([str(nodes), f"{seconds:.1f}", str(answered), *watched])
    return table


@contextmanager
def _ranks(nodes: int, folder: Path) -> Iterator[list[str]]:
    """A rank a node; the command that watches them."""
    with ExitStack() as stack:
        for rank in range(nodes):
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", RANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(nodes)},
                )
            )  # fmt: skip
            stack.callback(process.kill)
            assert process.stdout
            process.stdout.readline()
            (folder / f"n{rank}").write_text(str(process.pid))
        agent = f'exec {sys.executable} -m mpmon agent --stdio "$(cat {folder}/$node)"'
        # The name of the node is the last argument but one.
        (folder / "ssh").write_text(f"#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\nnode=$1\ncd {ROOT} && {agent}\n")
        (folder / "ssh").chmod(0o755)
        names = ",".join(f"n{rank}" for rank in range(nodes))
        yield ["env", f"PATH={folder}:{os.environ['PATH']}", *tools.mpmon(), "--nodes", names]


def _watched(command: list[str], nodes: int, seconds: float) -> list[str]:
    """CPU and memory of the front end and of an agent, once all agents are there, and how many processes are left at the end."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watching:
        assert watching.stdout
        watching.stdout.readline()
        time.sleep(seconds)  # stacks of all are read once
        root = psutil.Process(watching.pid)
        agents = [each for each in root.children() if "--stdio" in each.cmdline()]
        before = cpu_s(root.pid), sum(cpu_s(each.pid) for each in agents)
        time.sleep(seconds)
        spent = cpu_s(root.pid) - before[0], (sum(cpu_s(each.pid) for each in agents) - before[1]) / nodes
        sizes = root.memory_info().rss, sum(each.memory_info().rss for each in agents) / nodes
        watching.terminate()
        watching.wait()
        left = psutil.wait_procs(agents, timeout=wire.LEASE_S)[1]
    (front_cpu, agent_cpu), (front_rss, agent_rss) = spent, sizes
    per_second = 1000 / seconds
    return [f"{front_cpu * per_second:.0f}", f"{front_rss / 2**20:.0f}", f"{agent_cpu * per_second:.1f}",
            f"{agent_rss / 2**20:.0f}", str(len(left))]  # fmt: skip


# Replayed ones


class Counted(Simulated):
    """It knows what the making of its agents' words took."""

    making_s = 0.0

    def _answer(self, place: int, question: wire.Ask, *, is_asked: bool) -> wire.Round:
        began = time.process_time()
        made = super()._answer(place, question, is_asked=is_asked)
        Counted.making_s += time.process_time() - began
        return made

    def _packed(self, node: Any, message: wire.Said) -> bytes:
        began = time.process_time()
        made = super()._packed(node, message)
        Counted.making_s += time.process_time() - began
        return made

    def beats(self) -> float:
        """CPU seconds that a beat of each agent takes."""
        made, began = Counted.making_s, time.process_time()
        for number, node in enumerate(self._nodes):
            self._heard(node, wire.Beat(clock=float(number)))
        return time.process_time() - began - (Counted.making_s - made)


def _replayed(sizes: list[int]) -> Table:
    table = Table(
        "Replayed machines",
        f"{ON_A_NODE} ranks a node, one stuck loader worker; CPU of the front end only, memory of all.",
        ("nodes", "bytes, first answers", "bytes, last answers", "facts of", "blamed", "CPU s to the finding",
         "CPU ms of a beat of all",
                  "peak RSS MiB"),
    )  # fmt: skip
    for nodes in sizes:
        # Memory is counted from the start of a process.
        said = subprocess.run(
            [sys.executable, "-m", __name__, str(nodes)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        table.rows.append([str(nodes), *json.loads(said.stdout)])
    return table


def replay(nodes: int) -> list[str]:
    """One replay in this process; the cells of its row."""
    front.Fleet, Counted.case, Counted.culprit = Counted, "worker", nodes // 2 + 7
    began = time.process_time()
    watch = NodesWatch(Names(nodes), wire.Watch(interval=0.0))
    seen: list[Observation] = []
    for observation in islice(watch, ROUNDS):
        seen.append(observation)
        if len(seen) == ROUNDS:
            watch.stop()
    spent = time.process_time() - began - Counted.making_s
    fleet = watch._fleet
    assert isinstance(fleet, Counted)
    ranks = {suspect.rank for row in seen[-1].diagnosis.findings[:1] for suspect in row.suspects}
    is_right = ranks == {(nodes // 2 + 7) * ON_A_NODE + 1}
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return [f"{fleet.bytes[0]}", f"{fleet.bytes[-1]}", f"{max(fleet.asked)}", "right" if is_right else f"wrong: {ranks}",
            f"{spent:.2f}", f"{fleet.beats() * 1000:.0f}", f"{kib / 1024:.0f}"]  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(replay(int(sys.argv[1]))))
