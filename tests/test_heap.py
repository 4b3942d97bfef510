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


WITHOUT_TLS = """
import sys
from mpmon import heap

heap.import_asyncio_without_tls()
assert "_ssl" not in sys.modules
import asyncio, ssl

async def hello():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('hello')", stdout=asyncio.subprocess.PIPE)
    return (await child.communicate())[0]

print(asyncio.run(hello()), ssl.SSLContext.__name__)
"""


def test_what_asyncio_leaves_out_is_there_for_others() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_TLS], capture_output=True, text=True, check=True)
    assert ran.stdout == "b'hello\\n' SSLContext\n"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc leaves gaps, and can be asked not to")
def test_gaps_between_what_stays() -> None:
    left = {
        how: float(subprocess.run([sys.executable, "-c", GAPS, how], capture_output=True, check=True).stdout)
        for how in ("given back", "as it is")
    }
    assert left["given back"] < 0.5 < left["as it is"]
