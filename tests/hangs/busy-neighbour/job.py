import json
import multiprocessing as mp
import os
import select
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def metrics():
    say("role", role="process metrics")
    while True:



        sum(range(100_000))


def work(number):
    if number == 0:
        threading.Thread(target=metrics_light, daemon=True).start()
        answer, _ = os.pipe()
        say("role", role="pool worker x"), say("culprit", thread="MainThread"), say("settled")

        select.select([answer], [], [])  # CULPRIT


def metrics_light():
    while True:
        time.sleep(0.5)


def main():
    threading.Thread(target=metrics_light, daemon=True).start()
    ctx = mp.get_context("fork")
    ctx.Process(target=metrics, daemon=True).start()
    with ctx.Pool(2) as pool, open(os.devnull, "w") as out:
        print(pool.map(work, range(2), chunksize=1), file=out)


say("root"), say("role", role="main"), main()
