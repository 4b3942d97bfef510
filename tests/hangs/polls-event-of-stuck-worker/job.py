import json
import os
import multiprocessing
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def work(lock, done):
    say("role", role="process work")
    say("settled")
    with lock:
        done.set()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    lock, done = context.Lock(), context.Event()
    with lock:
        say("culprit")
        context.Process(target=work, args=(lock, done)).start()
        while not done.is_set():
            print("waiting for the worker", flush=True)
            time.sleep(1)  # CULPRIT


if __name__ == "__main__":
    main()
