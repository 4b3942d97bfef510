import json
import multiprocessing
import os
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def burn_in(passed):
    say("role", role="process burn-in")
    done = threading.Event()
    threading.Timer(90, done.set).start()
    done.wait()
    passed.put(True)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    passed = context.Queue()
    context.Process(target=burn_in, args=(passed,), name="burn-in").start()
    say("settled")
    passed.get()
