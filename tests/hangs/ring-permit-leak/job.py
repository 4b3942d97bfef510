"""Frames go through a ring of six slots; the tracker skips a damaged one without giving its slot back."""

import json
import multiprocessing as mp
import os
import time

SLOTS = 6


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def camera(free, filled):
    say("role", role="process camera")
    while True:
        free.acquire()
        time.sleep(0.01)
        filled.release()


def track(free, filled):
    say("role", role="process tracker")
    for frame in range(10**9):
        if frame == 8 * SLOTS:
            say("culprit", thread="MainThread")
            say("settled")
        filled.acquire()  # CULPRIT
        if frame % 8 == 7:
            continue
        free.release()


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("fork")
    rings = ctx.Semaphore(SLOTS), ctx.Semaphore(0)
    processes = [ctx.Process(target=target, args=rings) for target in (camera, track)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
