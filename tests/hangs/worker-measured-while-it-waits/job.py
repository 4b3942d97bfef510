"""A worker waits for a task that nobody puts, while a thread of it measures what it uses twice a second."""

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

def measure(used):
    while True:
        with open("/proc/self/statm") as file:
            used.append(int(file.read().split()[1]))
        time.sleep(0.5)


def work(tasks, results):
    say("role", role="process work")
    threading.Thread(target=measure, args=([],), daemon=True).start()
    say("culprit")
    say("settled")
    results.put(tasks.get())  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    say("culprit")
    context = multiprocessing.get_context("fork")
    tasks, results = context.Queue(), context.Queue()
    context.Process(target=work, args=(tasks, results), daemon=True).start()
    print(results.get())  # CULPRIT


if __name__ == "__main__":
    main()
