import json
import multiprocessing as mp
import os
import sqlite3
import time

CTX = mp.get_context("fork")
EMBEDDERS = 3


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """The last of n processes to tell where it stands also tells that all do."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if len({json.loads(x)["pid"] for x in f if '"waiter"' in x or '"culprit"' in x}) >= n:
            say("settled")

def connect():
    return sqlite3.connect("catalog.db", timeout=7200, isolation_level=None)


def embed(text):
    time.sleep(len(text) / 1000)
    return [hash(w) % 97 / 97 for w in text.split()]


class Catalog:
    """Inserts in transactions of eight, single commits are too slow on our disks."""

    def __init__(self):
        self.db, self.pending = connect(), 0

    def add(self, doc, vector):
        if not self.pending:
            self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO vectors VALUES (?, ?)", (doc, json.dumps(vector)))
        self.pending += 1
        if self.pending == 8:
            self.flush()

    def flush(self):
        if self.pending:
            self.db.execute("COMMIT")
            self.pending = 0


def embedder(k, docs, results):
    say("role", role=f"process embedder-{k}")
    catalog = Catalog()
    if k == 0:
        say("culprit", thread="MainThread")
    else:
        say("waiter")
    settle(EMBEDDERS + 1)
    while True:
        item = docs.get()  # CULPRIT
        if item is None:
            break
        doc, text = item
        catalog.add(doc, embed(text))
        results.put((k, doc))
    catalog.flush()


def documents():
    for doc in range(3000):
        yield doc, "lorem ipsum " * (10 + 150 * (doc % EMBEDDERS))


def main():
    say("root")
    say("role", role="main")
    with connect() as db:
        db.execute("CREATE TABLE vectors (doc INTEGER, vector TEXT)")
    inbox = [CTX.Queue() for _ in range(EMBEDDERS)]
    results = CTX.Queue()
    workers = [CTX.Process(target=embedder, args=(k, q, results)) for k, q in enumerate(inbox)]
    for p in workers:
        p.start()
    say("culprit", thread="MainThread")
    settle(EMBEDDERS + 1)
    todo = documents()
    for window in range(1000):
        for q in inbox:
            q.put(next(todo))
        for _ in inbox:
            k, doc = results.get()  # CULPRIT
    for q in inbox:
        q.put(None)
    for p in workers:
        p.join()


if __name__ == "__main__":
    main()
