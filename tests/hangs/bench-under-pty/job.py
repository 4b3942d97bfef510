"""Runs benchmark tools on a pseudo terminal (they print colours and line by line only there) and keeps their logs."""
import json
import os
import pty
import subprocess
import sys
import time
from dataclasses import dataclass, field


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


@dataclass
class Outcome:
    tool: str
    code: int
    seconds: float
    log: bytes = field(repr=False)


class Terminal:
    """A pty whose slave side is given to one tool."""

    def __init__(self):
        self.master, self.slave = pty.openpty()

    def run(self, argv):
        p = subprocess.Popen(argv, stdin=self.slave, stdout=self.slave, stderr=self.slave)
        os.close(self.slave)
        return p

    def text(self):
        chunks = []
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:         # EIO: the last slave is closed
                break
            if not data:
                break
            chunks.append(data)
        os.close(self.master)
        return b"".join(chunks)


class Bench:
    def __init__(self):
        self.outcomes = []

    def measure(self, tool, *args):
        term = Terminal()
        began = time.monotonic()
        proc = term.run([sys.executable, os.path.abspath(__file__), tool, *args])
        code = proc.wait()                                      # CULPRIT
        took = time.monotonic() - began
        self.outcomes.append(Outcome(tool, code, took, term.text()))
        truth("progress")


def matmul(n):
    n = int(n)
    a = [[(i * j) % 7 for j in range(n)] for i in range(n)]
    total = sum(sum(x * y for x, y in zip(r, a[0])) for r in a)
    print(f"\x1b[32mmatmul {n}\x1b[0m {total}")


def sweep(n):
    truth("role", role="process sweep")
    truth("culprit", thread="MainThread")
    truth("waiter", pid=os.getppid())
    truth("settled")
    for step in range(int(n)):
        for block in (16, 32, 64, 128):
            gflops = 1000 / (1 + abs(block - 64)) + step % 11
            print(f"\x1b[33mstep {step:5d}\x1b[0m block {block:4d} {gflops:8.3f} GFLOP/s " + "#" * 40)  # CULPRIT


TOOLS = {"matmul": matmul, "sweep": sweep}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        TOOLS[sys.argv[1]](*sys.argv[2:])
    else:
        truth("root")
        truth("role", role="main")
        truth("culprit", thread="MainThread")
        bench = Bench()
        bench.measure("matmul", "40")
        bench.measure("matmul", "80")
        bench.measure("sweep", "4000")
        print(bench.outcomes)
