"""Numbers are sorted by sort(1); a process that samples the machine's load was forked while its standard input was open."""

import json
import multiprocessing as mp
import os
import subprocess
import sys


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def sample(stop):
    say("role", role="process sampler")
    say("culprit", thread="MainThread")
    while not stop.wait(1.0):  # CULPRIT
        print(os.getloadavg()[0], file=sys.stderr, flush=True)


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("fork")
    sort = subprocess.Popen(["sort", "-n"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stop = ctx.Event()
    sampler = ctx.Process(target=sample, args=(stop,), daemon=True)
    sampler.start()
    for number in range(1000):
        sort.stdin.write(f"{number * 7919 % 1000}\n")
    sort.stdin.close()
    say("settled")
    for line in sort.stdout:
        print(line, end="")
    stop.set()
    sampler.join()


if __name__ == "__main__":
    main()
