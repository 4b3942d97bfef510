import json
import multiprocessing
import os

def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def work(stop):
    say("role", role=f"process work ({multiprocessing.current_process().name})")
    while not stop.wait(1):
        print("still here", flush=True)


say("root")
say("role", role="main")
context = multiprocessing.get_context("fork")
stop = context.Event()
workers = [context.Process(target=work, args=(stop,)) for _ in range(2)]
for worker in workers:
    worker.start()
say("settled")
for worker in workers:
    worker.join()
