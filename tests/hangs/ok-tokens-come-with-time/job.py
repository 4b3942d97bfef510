"""A worker waits until its bucket has a token, which comes with time."""

import json
import multiprocessing
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Bucket:
    def __init__(self, rate):
        self.rate, self.tokens, self.began = rate, 0.0, time.monotonic()

    def refill(self):
        self.tokens = (time.monotonic() - self.began) * self.rate


def work(flag, event, results):
    say("role", role="process work")
    say("settled")
    bucket = Bucket(rate=0.02)
    while not bucket.tokens >= 1:
        bucket.refill()
        time.sleep(0.3)
    results.put(True)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    flag, event, results = context.Value("i", 0), context.Event(), context.Queue()
    context.Process(target=work, args=(flag, event, results), daemon=True).start()
    print(results.get())


if __name__ == "__main__":
    main()
