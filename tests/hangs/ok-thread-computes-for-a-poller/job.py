"""A worker polls what a thread of it computes, and counts how often it looked."""

import json
import multiprocessing
import os
import threading
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def compute(found):
    end = time.monotonic() + 45
    while time.monotonic() < end:
        sum(range(9999))
    found.append(42)


def work(results):
    say("role", role="process work")
    found, looks = [], 0
    threading.Thread(target=compute, args=(found,), daemon=True).start()
    while not found:
        looks += 1
        print("not yet", looks)
        time.sleep(0.5)
    results.put(found.pop())


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    context.Process(target=work, args=(results,), daemon=True).start()
    say("settled")
    print(results.get())


if __name__ == "__main__":
    main()
