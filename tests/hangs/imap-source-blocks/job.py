import json
import multiprocessing as mp
import os
import threading
import time


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def inbox(path):
    """Names of finished captures, one a line, as the camera delivers them."""
    with open(path) as f:
        while True:
            name = f.readline()  # CULPRIT
            if not name:
                return
            yield name.strip()


def camera(path):
    """Delivers a few names, then has nothing more but keeps the line open."""
    say("role", role="process camera")
    say("culprit", thread="MainThread")
    with open(path, "w") as f:
        for i in range(12):
            print(f"capture-{i:04d}", file=f, flush=True)
            time.sleep(0.02)
        say("settled")
        threading.Event().wait()  # CULPRIT


def name_worker():
    say("role", role="pool worker")
    say("waiter")


def histogram(name):
    counts = [0] * 16
    for i, c in enumerate(name * 200):
        counts[(ord(c) + i) % 16] += 1
    return name, counts


def main():
    say("root")
    say("role", role="main")
    os.mkfifo("inbox")
    ctx = mp.get_context("fork")
    ctx.Process(target=camera, args=("inbox",), daemon=True).start()
    total = [0] * 16
    with ctx.Pool(2, initializer=name_worker) as pool:
        for name, counts in watch(pool.imap(histogram, inbox("inbox"))):
            total = [a + b for a, b in zip(total, counts)]
            print(name, sum(total), flush=True)


def watch(results):
    t = next(t for t in threading.enumerate() if "_handle_tasks" in t.name)
    say("culprit", thread=t.name)
    yield from results


if __name__ == "__main__":
    main()
