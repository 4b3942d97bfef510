"""Merges the runs of one bucket."""
import glob
import json
import logging
import os
import subprocess
import sys
import time

log = logging.getLogger("worker")


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def merge(bucket):
    files = sorted(glob.glob(f"runs-{bucket}-*.txt"))
    out = f"bucket-{bucket}.txt"
    log.info("bucket %s: %d runs", bucket, len(files))
    if not files:
        say("culprit", thread="MainThread")
        say("settled")
    sort = subprocess.Popen(["sort", "-n", "-o", out, *files])
    if not files:
        say("role", sort.pid, role="subprocess sort")
        say("culprit", sort.pid, thread="MainThread")
    sort.wait()  # CULPRIT
    return out, os.path.getsize(out)


def main():
    k = int(sys.argv[1])
    say("role", role=f"subprocess merger-{k}")
    if k == 0:
        say("waiter")
    while line := sys.stdin.readline():
        task = json.loads(line)
        time.sleep(0.2)
        out, size = merge(task["bucket"])
        print(json.dumps({"out": out, "size": size}), flush=True)


main()
