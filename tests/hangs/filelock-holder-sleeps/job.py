import json
import multiprocessing as mp
import os
import time

from filelock import FileLock


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def download(status):
    if status == 503:

        time.sleep(86400)  # CULPRIT


def prepare(number, began):
    say("role", role=f"process prepare-{number}")
    if number != 1:
        began.wait(), say("settled")

    with FileLock("data.lock"):
        say("culprit", thread="MainThread"), began.set()
        download(503)


def main():
    say("root"), say("role", role="main")
    began = mp.get_context("fork").Event()
    mp.set_start_method("fork")
    processes = [mp.Process(target=prepare, args=(number, began)) for number in range(3)]
    for process in processes:

        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
