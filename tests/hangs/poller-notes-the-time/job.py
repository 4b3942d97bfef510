"""A worker polls a flag that nobody sets, and notes each time when it looked."""

import json
import multiprocessing
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Watch:
    def __init__(self):
        self.looked_at, self.looks = 0.0, []


def work(flag, event, results):
    say("role", role="process work")
    say("culprit")
    say("settled")
    watch = Watch()
    while flag.value == 0:
        watch.looked_at = time.time()
        watch.looks.append(watch.looked_at)
        time.sleep(0.2)  # CULPRIT
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
