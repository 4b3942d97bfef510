"""Main polls, and counts how often in a variable of the module, for a mark that a mill sets once it has got its grain, which main sends afterwards."""

import json
import multiprocessing
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def mill(grain, ready):
    say("role", role="process mill")
    say("waiter")
    grain.get()
    ready.value = 1


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("culprit")
    context = multiprocessing.get_context("fork")
    grain, ready = context.Queue(), context.Value("i", 0)
    context.Process(target=mill, args=(grain, ready), daemon=True).start()
    looks = {"times": 0}
    say("settled")
    while ready.value == 0:
        looks["times"] += 1
        looks["last"] = time.time()
        time.sleep(0.4)  # CULPRIT
    grain.put("wheat")
