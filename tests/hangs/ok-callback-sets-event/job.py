"""The callback of a pool's result sets the event that the main thread waits for, beside a thread that logs."""

import json
import multiprocessing as mp
import os
import queue
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def render(number):
    time.sleep(15)
    return number


def log(lines):
    while True:
        print(lines.get(), flush=True)


def main():
    say("root")
    say("role", role="main")
    lines = queue.Queue()
    with mp.get_context("fork").Pool(2) as pool:
        threading.Thread(target=log, args=(lines,), daemon=True).start()
        for number in range(10):
            done = threading.Event()
            pool.apply_async(render, (number,), callback=lambda result, done=done: (lines.put(result), done.set()))
            say("settled")
            done.wait()


if __name__ == "__main__":
    main()
