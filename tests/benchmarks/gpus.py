"""Part gpus: CPU per second of a screen that shows eight GPUs with all processes of the job on them.

mpmon, nvitop and gpustat take turns on a terminal of 200x60, each with a look a second; the driver is the stand-in, which
answers in a microsecond, so what is measured is the programs. Counted is a program with all its processes, mpmon's helper
that asks the driver too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks import tools
from tests.benchmarks.live import take_turns
from tests.benchmarks.table import Table, middle, ratio

if TYPE_CHECKING:
    from tests.benchmarks.rig import Rig


def measure(rig: Rig) -> list[Table]:
    """Measure a table per size of the job and kind of job."""
    return [_table(rig, processes, job) for processes in rig.sizes for job in rig.jobs]


def _table(rig: Rig, processes: int, job: str) -> Table:
    table = Table(
        f"{tools.GPUS} GPUs with {processes} processes, {job} job",
        f"{rig.rounds} rounds of {rig.seconds:.0f} s, medians; ratios within a round.",
        ("program", "CPU ms/s", "by nvitop", "settling CPU ms", "KiB/s out", "RSS MiB"),
    )
    screens = tools.gpu_screens()
    problems = {tool.name: rig.setting.problem(tool) for tool in screens}
    rounds = take_turns(rig, processes, screens, problems, kind=job, on_gpus=processes)
    cpu = {name: [one.cpu for one in taken] for name, taken in rounds.items()}
    for name, problem in problems.items():
        if problem is not None:
            table.skip(name, problem)
            continue
        table.rows.append(
            [
                name,
                middle(cpu[name]),
                ratio(cpu[name], cpu["nvitop"]),
                middle([one.settling_cpu_s * 1000 for one in rounds[name]], 0),
                middle([one.cost.output_bytes / one.cost.seconds / 1024 for one in rounds[name]]),
                middle([one.cost.rss_bytes / 2**20 for one in rounds[name]], 0),
            ]
        )
    return table
