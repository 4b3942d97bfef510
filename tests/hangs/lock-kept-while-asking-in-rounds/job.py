"""One keeps a lock while it asks in rounds of three seconds for an item of one who needs the lock."""

import json
import multiprocessing
import os
import queue
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def take(lock, items):
    say("role", role="process take")
    with lock:
        say("culprit")
        while True:
            try:
                return items.get(timeout=3)  # CULPRIT
            except queue.Empty:
                print("no item yet", flush=True)


def make(lock, items):
    say("role", role="process make")
    time.sleep(0.5)
    say("waiter")
    say("settled")
    with lock:
        items.put(1)


def main():
    say("root")
    say("role", role="main")
    lock, items = multiprocessing.Lock(), multiprocessing.Queue()
    processes = [multiprocessing.Process(target=one, args=(lock, items)) for one in (take, make)]
    for process in processes:
        process.start()
    say("waiter")
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
