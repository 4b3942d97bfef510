"""A glance finds the processes that the table of processes finds, and reads their commands."""

from __future__ import annotations

import subprocess
import sys

from mpmon import demo
from mpmon.probes.files import Proc
from mpmon.probes.glance import Glance
from mpmon.probes.processes import ProcessTable

SILENT = "os.write(1, b'ready\\n'); os.read(0, 1)"
LEAVES_AN_ORPHAN = f"""
import os, time
time.sleep(2 / os.sysconf("SC_CLK_TCK"))  # an orphan is younger than the root, and ages are known in ticks
if not os.fork():
    if os.fork():
        os._exit(0)
    {SILENT}
    os._exit(0)
os.wait()
{SILENT}
"""


def test_a_glance_sees_the_job_as_the_table_does() -> None:
    with demo.start("lock-cycle") as running:
        proc = Proc()
        seen = Glance(proc, running.pid)
        rows, _ = ProcessTable(proc, running.pid).look(0.0)
        assert list(seen.processes) == [row.pid for row in rows]
        assert len(rows) == 3
        assert [seen.cmdline(row.pid) for row in rows] == [row.cmdline for row in rows]
        assert [seen.processes[row.pid].name for row in rows] == [row.name for row in rows]


def test_one_whose_parent_has_ended_is_seen_too() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES_AN_ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as job:
        assert job.stdout is not None
        assert [job.stdout.readline(), job.stdout.readline()] == [b"ready\n", b"ready\n"]
        assert len(Glance(Proc(), job.pid).processes) == 2
        assert job.stdin is not None
        job.stdin.close()


def test_nobody() -> None:
    seen = Glance(Proc(), 2**31 - 1)
    assert not seen.processes
    assert seen.cmdline(2**31 - 1) == ()
