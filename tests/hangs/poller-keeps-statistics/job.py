"""A worker waits in short rounds for an event, counts the rounds and writes a sign of life; the one that would set it sleeps."""

import json
import multiprocessing
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def prepare(event):
    say("role", role="process prepare")
    say("culprit")
    say("settled")
    time.sleep(10**6)  # CULPRIT
    event.set()


def work(event, results):
    say("role", role="process work")
    rounds = {"waited": 0}
    began = time.monotonic()
    while not event.wait(0.5):
        rounds["waited"] += 1
        message = f"{rounds['waited']} rounds, {time.monotonic() - began:.0f} s"
        with open("alive", "w") as file:
            file.write(message)
    results.put(True)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    event, results = context.Event(), context.Queue()
    context.Process(target=prepare, args=(event,), daemon=True).start()
    context.Process(target=work, args=(event, results), daemon=True).start()
    print(results.get())


if __name__ == "__main__":
    main()
