import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def produce(queue):
    say("role", role="process producer")
    queue.put("first")
    say("culprit", thread="MainThread"), say("settled")



    time.sleep(86400), queue.put("second")  # CULPRIT


def consume(queue):
    say("role", role="process consumer")
    while queue.get():
        pass


def main():
    ctx = mp.get_context("fork")
    with ctx.Manager() as manager:
        queue = manager.Queue()
        for process in (processes := [ctx.Process(target=target, args=(queue,)) for target in (consume, produce)]):
            process.start()
        for process in processes:
            process.join()


say("root"), say("role", role="main"), main()
