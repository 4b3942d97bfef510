"""What is freed between what stays goes back to the kernel."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

GAPS = """
import os, sys
from mpmon import heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

if sys.argv[1] == "given back":
    heap.give_back()
del_first = [bytes(1 << 20) for _ in range(2)]
del del_first
before = resident()
large, small = [], []
for number in range(2000):
    large.append(bytes([number % 256]) * 40_000)
    small.append(bytes([number % 256]) * 1_000)
full = resident()
large.clear()
print((resident() - before) / (full - before))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc leaves gaps, and can be asked not to")
def test_gaps_between_what_stays() -> None:
    left = {
        how: float(subprocess.run([sys.executable, "-c", GAPS, how], capture_output=True, check=True).stdout)
        for how in ("given back", "as it is")
    }
    assert left["given back"] < 0.5 < left["as it is"]
