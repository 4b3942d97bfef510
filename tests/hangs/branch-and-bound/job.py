import json
import multiprocessing as mp
import os
import threading
import time

def say(event, pid=0, **more):
    """One ground truth line."""
    record = {"event": event, "pid": pid or os.getpid()}
    record.update(more)
    path = os.environ.get("CORPUS_TRUTH", os.devnull)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, (json.dumps(record) + "\n").encode())
    finally:
        os.close(fd)


def settle(n):
    """The last of n parties to say where it ends up also says that the state is settled."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")

SIZE = 2
LINKS = []
ME = None


def seat(counter):
    global ME
    with counter.get_lock():
        ME = counter.value
        counter.value += 1
    say("role", role=f"pool worker {ME}")


def bound(node):
    return sum((node * k) % 17 for k in range(5000))


def ask(node):
    """Have the bound of a child node computed on the pool."""
    link = LINKS[ME][1]
    link.send(node)
    if node > 100:
        say("culprit", thread="MainThread")
        settle(SIZE + 1)
    return link.recv()  # CULPRIT


def explore(node):
    time.sleep(0.5)
    best = bound(node)
    for child in (node * 10 + 1, node * 10 + 2):
        best = min(best, ask(child))
    return best


def dispatch(pool, link):
    while True:
        node = link.recv()
        link.send(pool.apply_async(bound, (node,)).get())


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    LINKS.extend(ctx.Pipe() for _ in range(SIZE))
    pool = ctx.Pool(SIZE, initializer=seat, initargs=(ctx.Value("i", 0),))
    for k in range(SIZE):
        threading.Thread(target=dispatch, args=(pool, LINKS[k][0]), name=f"dispatch-{k}", daemon=True).start()
    print("root bounds", pool.map(bound, range(11, 19)))
    print("best", min(pool.map(explore, range(11, 19), chunksize=1)))


if __name__ == "__main__":
    main()
