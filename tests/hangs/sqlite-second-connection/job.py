import json
import os
import sqlite3


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def connect():
    return sqlite3.connect("runs.db", timeout=7200, isolation_level=None)


def audit(text):
    with connect() as db:
        db.execute("INSERT INTO audit VALUES (?)", (text,))  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    db = connect()
    db.execute("CREATE TABLE runs (name TEXT)")
    db.execute("CREATE TABLE audit (line TEXT)")
    db.execute("BEGIN IMMEDIATE")
    for run in range(10):
        db.execute("INSERT INTO runs VALUES (?)", (f"run {run}",))
    say("culprit")
    say("settled")
    audit("ten runs")
    db.execute("COMMIT")


main()
