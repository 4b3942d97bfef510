"""A worker has a file open on a file system whose server stops answering, and computes; nobody touches that file.

Needs root, FUSE, and the root of mpmon's repository on PYTHONPATH.
"""

import json
import multiprocessing as mp
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


def read(path, queue, goes_on):
    truth("role", role="process read")
    data = os.open(path, os.O_RDONLY)
    queue.put("open")
    goes_on.wait()
    while True:
        queue.put(sum(data * number for number in range(1_000_000)))


def train():
    truth("root")
    truth("role", role="main")
    queue, goes_on = mp.Queue(), mp.Event()
    worker = mp.Process(target=read, args=(f"{HERE}/data.bin", queue, goes_on))
    worker.start()
    queue.get()
    print("ready", flush=True)
    sys.stdin.readline()
    goes_on.set()
    truth("settled")
    while True:
        queue.get()


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
