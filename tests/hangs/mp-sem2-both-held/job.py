import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def slot(number, permits, taken):
    """One of four that share two GPUs."""
    say("role", role=f"process slot-{number}")
    answer, _ = os.pipe()
    if number == 3:
        say("settled")





    with permits:
        say("culprit", thread="MainThread", all=True)
        taken.set()
        # A helper should write when it is done, but was never started.
        os.read(answer, 1)  # CULPRIT


def main():
    ctx = mp.get_context("fork")
    permits, taken = ctx.Semaphore(2), [ctx.Event() for _ in range(4)]
    slots = [ctx.Process(target=slot, args=(number, permits, taken[number])) for number in range(4)]
    for number, process in enumerate(slots):
        process.start(), taken[number].wait() if number < 2 else None
    for process in reversed(slots):
        process.join()


say("root"), say("role", role="main"), main()
