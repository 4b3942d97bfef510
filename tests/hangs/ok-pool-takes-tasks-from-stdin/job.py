"""A pool whose tasks come from a program that takes its time; its task thread waits in the iterable, its workers for tasks."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import subprocess
import sys
import time

SOURCE = "import time\nfor n in range(9): print(n, flush=True); time.sleep(40 if n == 2 else 0.1)"


def told(**fact: object) -> None:
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(json.dumps({"pid": os.getpid(), **fact}) + "\n")


def square(line: str) -> int:
    return int(line) ** 2


def worker() -> None:
    told(event="role", role=f"pool worker {mp.current_process()._identity[0] - 1}")


def main() -> None:
    told(event="root")
    told(event="role", role="main")
    source = subprocess.Popen([sys.executable, "-c", SOURCE], stdout=subprocess.PIPE)
    told(event="role", pid=source.pid, role="subprocess python3.11 -c")
    os.dup2(source.stdout.fileno(), 0)
    source.stdout.close()
    with mp.get_context("fork").Pool(2, initializer=worker) as pool:
        for number in pool.imap(square, iter(sys.stdin.readline, "")):
            print(number, flush=True)
            if number == 4:
                told(event="settled")


if __name__ == "__main__":
    main()
