import json
import os
import queue
import sqlite3
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def connect():
    return sqlite3.connect("runs.db", timeout=7200, isolation_level=None)


ROWS = queue.Queue()


def flush_by_ten(there):
    """Inserts in transactions of ten."""
    db = connect()
    while True:
        db.execute("BEGIN IMMEDIATE")
        for number in range(10):
            row = ROWS.get()  # CULPRIT
            db.execute("INSERT INTO runs VALUES (?)", (row,))
            if number == 2:
                there.set()
        db.execute("COMMIT")


def main():
    say("root")
    say("role", role="main")
    db = connect()
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE runs (name TEXT)")
    there = threading.Event()
    threading.Thread(target=flush_by_ten, args=(there,), daemon=True).start()
    for run in range(3):
        ROWS.put(f"run {run}")
    there.wait()
    say("culprit")
    say("settled")
    db.execute("DELETE FROM runs WHERE name = 'run 0'")  # CULPRIT
    for run in range(3, 10):
        ROWS.put(f"run {run}")


main()
