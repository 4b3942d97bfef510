import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def notifier(condition):
    say("role", role="process notifier"), say("culprit", thread="MainThread", dead=True)
    with condition:
        condition.notify()


def listener(condition):
    say("role", role="process listener"), say("culprit", thread="MainThread")
    time.sleep(1.0)  # it warms up, and comes too late
    with condition:
        say("settled")


        condition.wait()  # CULPRIT


def main():
    ctx = mp.get_context("fork")
    condition = ctx.Condition()
    processes = [ctx.Process(target=target, args=(condition,)) for target in (listener, notifier)]
    for process in processes:
        process.start()
    for process in reversed(processes):
        process.join()


say("root"), say("role", role="main"), main()
