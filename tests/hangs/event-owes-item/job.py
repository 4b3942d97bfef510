import json
import multiprocessing
import os
import queue


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def produce(items, taken):
    say("role", role="process produce")
    say("culprit", thread="MainThread")
    for k in range(3):
        # What cannot be pickled is lost: the queue's thread prints why, and goes on.
        items.put(k if k < 2 else (lambda: k))
    while not taken.wait(1.0):  # CULPRIT
        print("3 items are on their way", flush=True)


def take(items, alive):
    idle = 0
    while True:
        try:
            return items.get(timeout=1.0)  # CULPRIT
        except queue.Empty:
            idle += 1
            print(f"waited {idle} s, alive: {alive()}", flush=True)
            if not alive():
                raise


def main():
    say("root")
    say("role", role="main")
    # Nothing that is left tells that an item was lost: it may be that main waits for one too many.
    say("culprit", thread="MainThread")
    context = multiprocessing.get_context("fork")
    items, taken = context.Queue(), context.Event()
    producer = context.Process(target=produce, args=(items, taken), name="produce", daemon=True)
    producer.start()
    for k in range(3):
        if k == 2:
            say("settled")
        take(items, producer.is_alive)
    taken.set()
    producer.join()


if __name__ == "__main__":
    main()
