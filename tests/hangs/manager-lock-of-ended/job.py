import json
import multiprocessing
import os

def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def work(lock):
    say("culprit", dead=True)
    lock.acquire()
    os._exit(0)  # CULPRIT


say("root")
say("role", role="main")
context = multiprocessing.get_context("fork")
lock = context.Manager().Lock()
child = context.Process(target=work, args=(lock,))
child.start()
child.join()
say("settled")
lock.acquire()
