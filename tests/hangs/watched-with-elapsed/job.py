import json
import multiprocessing
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def convert(k, first, second):
    say("role", role=f"process convert-{k}")
    say("culprit", thread="MainThread")
    with first:
        time.sleep(1)
        with second:  # CULPRIT
            time.sleep(1)


class Conversion:
    def __init__(self, context):
        left, right = context.Lock(), context.Lock()
        pairs = ((left, right), (right, left))
        self.members = [context.Process(target=convert, args=(k, *pair), name=f"convert-{k}", daemon=True) for k, pair in enumerate(pairs)]

    def run(self):
        for member in self.members:
            member.start()
        started, told = time.monotonic(), 0
        while any(member.is_alive() for member in self.members):
            elapsed = time.monotonic() - started
            if elapsed > told + 2:
                told += 2
                print(f"still converting after {elapsed:.0f} s", flush=True)
            time.sleep(0.25)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("waiter")
    conversion = Conversion(multiprocessing.get_context("fork"))
    say("settled")
    conversion.run()
