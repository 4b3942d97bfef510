import json
import multiprocessing
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def uploader(lock, started):
    """Goes on behind the back of its parent, as a daemon does."""
    os.setsid()
    with lock:
        started.set()
        say("role", role="process uploader"), say("culprit")
        time.sleep(86400)  # CULPRIT


def start_uploader(lock, started):
    if os.fork() == 0:
        uploader(lock, started)
        os._exit(0)
    started.wait()
    os._exit(0)


def main():
    context = multiprocessing.get_context("fork")
    lock, started = context.Lock(), context.Event()
    starter = context.Process(target=start_uploader, args=(lock, started), name="starter")
    starter.start()
    starter.join()
    say("settled")
    with lock:
        print("epoch 0")


if __name__ == "__main__":
    say("root"), say("role", role="main"), main()
