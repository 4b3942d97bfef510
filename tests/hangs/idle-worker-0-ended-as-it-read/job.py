"""The worker that is idle for longest, named with 0, is terminated while it reads from the queue of tasks."""

import json
import multiprocessing
import os
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(tasks, results):
    say("role", role="process " + multiprocessing.current_process().name)
    while True:
        results.put(tasks.get())


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    tasks, results = context.Queue(), context.Queue()
    workers = [context.Process(target=work, args=(tasks, results), name=f"worker-{number}") for number in range(3)]
    workers[0].start()
    while not tasks._rlock._semlock._is_zero():
        time.sleep(0.01)
    for worker in workers[1:]:
        worker.start()
    retired = workers.pop(0)
    say("culprit", retired.pid, dead=True)
    retired.terminate()
    retired.join()
    del retired
    say("settled")
    for page in range(9):
        tasks.put(page)
    print([results.get() for _ in range(9)])


if __name__ == "__main__":
    main()
