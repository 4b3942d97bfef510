"""Of two workers one has put its result, and waits for more; the other one still waits for its command, and has put nothing."""

import json
import multiprocessing as mp
import os
import subprocess
import sys


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def work(number, tasks, results):
    say("role", role=f"process worker {number}")
    for task in iter(tasks.get, None):
        if task:
            say("settled")
            subprocess.run([sys.executable, "-c", "import time; t = time.time() + 25\nwhile time.time() < t: pass"], check=True)
        results.put(task)


def main():
    say("root")
    say("role", role="main")
    context = mp.get_context("fork")
    results, queues = context.Queue(), [context.Queue(), context.Queue()]
    for number, tasks in enumerate(queues):
        context.Process(target=work, args=(number, tasks, results), daemon=True).start()
    for number, tasks in enumerate(queues):
        tasks.put(number)
    print([results.get() for _ in queues], flush=True)


if __name__ == "__main__":
    main()
