import json
import multiprocessing as mp
import os
import queue
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

CTX = mp.get_context("fork")
METRICS = queue.Queue()
FLUSHING = threading.Event()


def flusher():
    """writes a snapshot of the metrics twice a minute"""
    while True:
        with METRICS.mutex:
            FLUSHING.set()
            with open("metrics.log", "a") as f:
                for name, value in METRICS.queue:
                    f.write(f"{name} {value}\n")
                    f.flush()
                    time.sleep(0.05)
            METRICS.queue.clear()
            FLUSHING.clear()
        time.sleep(24 * 3600)


def worker(k, tasks, results):
    say("role", role=f"process worker-{k}")
    if k == 1:
        say("culprit", thread="MainThread")
        say("settled")
    else:
        say("waiter")
    METRICS.put(("worker.started", k))  # CULPRIT
    while True:
        n = tasks.get()
        METRICS.put(("task", n))
        results.put((k, sum(i * i for i in range(n))))


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    per = [(CTX.SimpleQueue(), CTX.SimpleQueue()) for _ in range(3)]
    workers = [CTX.Process(target=worker, args=(k, *per[k]), daemon=True) for k in range(3)]
    workers[0].start()
    for i in range(20):
        METRICS.put(("boot.step", i))
    threading.Thread(target=flusher, name="flusher", daemon=True).start()
    FLUSHING.wait()
    workers[1].start()
    while FLUSHING.is_set():
        time.sleep(0.05)
    workers[2].start()
    for n in range(30):
        for tasks, _ in per:
            tasks.put(1000 + n)
        total = sum(results.get()[1] for _, results in per)
    print(total)


if __name__ == "__main__":
    main()
