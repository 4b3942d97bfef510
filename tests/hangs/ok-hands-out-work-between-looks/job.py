"""Main waits half a second for results, then looks for files to hand out; there are none, and its workers idle."""

import json
import multiprocessing
import os
import queue
import tempfile


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(tasks, results):
    say("role", role="process work")
    while (path := tasks.get()) is not None:
        results.put(os.path.getsize(path))


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    tasks, results = context.Queue(), context.Queue()
    for _ in range(2):
        context.Process(target=work, args=(tasks, results), daemon=True).start()
    folder = tempfile.mkdtemp()
    tasks.put(folder)
    say("settled")
    while True:
        try:
            print(results.get(timeout=0.5), flush=True)
        except queue.Empty:
            for entry in os.scandir(folder):
                tasks.put(entry.path)


if __name__ == "__main__":
    main()
