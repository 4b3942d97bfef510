import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def consume(number, tasks):
    say("role", role=f"process consumer-{number}")
    if number == 2:
        time.sleep(1.0)  # it loads its model, the others have begun
        say("culprit", thread="MainThread"), say("settled")
    while True:

        task = tasks.get()  # CULPRIT
        if task is None:
            return


def main():
    say("root"), say("role", role="main"), say("culprit", thread="MainThread")
    ctx = mp.get_context("fork")
    tasks = ctx.SimpleQueue()
    consumers = [ctx.Process(target=consume, args=(number, tasks)) for number in range(3)]
    for consumer in consumers:
        consumer.start()
    for task in range(20):
        tasks.put(task)
    # One stop mark for each of two: of the third nobody has thought.
    for _ in range(2):
        tasks.put(None)
    for consumer in consumers:
        consumer.join()  # CULPRIT


if __name__ == "__main__":
    main()
