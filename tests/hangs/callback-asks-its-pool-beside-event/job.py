"""A callback of a pool's result schedules another task in that pool and waits for it, in the thread that takes
all results; the main thread waits for an event that the last callback sets."""

import json
import os
import threading
import time

from pebble import ProcessPool


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def parse(document):
    time.sleep(0.05)
    return document.split()


def count(words):
    return {word: words.count(word) for word in set(words)}


class Pipeline:
    def __init__(self, pool):
        self.pool, self.totals, self.done = pool, {}, threading.Event()

    def submit(self, document):
        future = self.pool.schedule(parse, args=(document,))
        future.add_done_callback(self.parsed)
        return future

    def parsed(self, future):
        counts = self.pool.schedule(count, args=(future.result(),))
        say("culprit")
        say("settled")
        self.totals.update(counts.result())  # CULPRIT
        if len(self.totals) > 40:
            self.done.set()


def main():
    say("root")
    say("role", role="main")
    with ProcessPool(max_workers=2) as pool:
        pipeline = Pipeline(pool)
        for number in range(20):
            pipeline.submit(f"report {number} of the day")
        pipeline.done.wait()
    print(pipeline.totals)


if __name__ == "__main__":
    main()
