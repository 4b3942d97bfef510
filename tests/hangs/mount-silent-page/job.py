"""The program sums up a mapped file that lies on a file system whose server stops answering.

Needs root, FUSE, and the root of mpmon's repository on PYTHONPATH.
"""

import json
import mmap
import os
import subprocess
import sys
import tempfile

HERE = os.environ.get("DATA", "")


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def total(mapped):
    return sum(mapped[at] for at in range(0, len(mapped), 4096))  # CULPRIT


def train():
    truth("root")
    truth("role", role="main")
    with open(f"{HERE}/data.bin", "rb") as data:
        mapped = mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ)
    print("ready", flush=True)
    sys.stdin.readline()
    truth("culprit")
    truth("settled")
    total(mapped)


def main():
    from tests.deadfs.mounting import Mount

    with Mount(tempfile.mkdtemp()) as mount:
        job = subprocess.Popen([sys.executable, "job.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=dict(os.environ, DATA=mount.place))
        job.stdout.readline()
        mount.be("silent")
        job.stdin.write("\n")
        job.stdin.flush()
        job.wait()


if __name__ == "__main__":
    train() if HERE else main()
