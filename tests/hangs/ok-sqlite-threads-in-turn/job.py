import json
import os
import sqlite3
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def connect():
    return sqlite3.connect("runs.db", timeout=7200, isolation_level=None)


def load(part):
    db = connect()
    db.execute("BEGIN IMMEDIATE")
    for row in range(20):
        time.sleep(1)
        db.execute("INSERT INTO runs VALUES (?)", (f"{part}:{row}",))
    db.execute("COMMIT")


def main():
    say("root")
    say("role", role="main")
    db = connect()
    db.execute("CREATE TABLE runs (name TEXT)")
    for part in range(3):
        threading.Thread(target=load, args=(part,)).start()
    time.sleep(2)
    say("settled")
    db.execute("DELETE FROM runs WHERE name = 'none'")


main()
