import json
import multiprocessing as mp
import os
from multiprocessing.connection import wait


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def align(number, results):
    say("role", role=f"process align-{number}")
    results.put(bytes(1_000_000))
    if number == 1:
        say("settled")


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("forkserver")
    results = ctx.Queue()
    workers = [ctx.Process(target=align, args=(number, results)) for number in range(2)]
    for worker in workers:
        worker.start()
    say("culprit", thread="MainThread")
    left = {worker.sentinel for worker in workers}
    # When all have ended, their results are taken.
    while left:



        left -= set(wait(left))  # CULPRIT
    print([len(results.get()) for _ in workers])



if __name__ == "__main__":
    main()
