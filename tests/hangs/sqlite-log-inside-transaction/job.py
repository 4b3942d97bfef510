import json
import logging
import multiprocessing as mp
import os
import sqlite3


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def connect():
    return sqlite3.connect("jobs.db", timeout=7200, isolation_level=None)


class ToTable(logging.Handler):
    def emit(self, record):
        with connect() as db:
            db.execute("INSERT INTO log VALUES (?)", (record.getMessage(),))  # CULPRIT


def run(number):
    logging.getLogger().addHandler(ToTable())
    db = connect()
    logging.warning("job %s", number)
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO done VALUES (?)", (number,))
    if number == 3:
        say("role", role="pool worker")
        say("culprit")
        say("settled")
        logging.warning("job %s is odd", number)
    db.execute("COMMIT")
    return number


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    with connect() as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE log (line TEXT)")
        db.execute("CREATE TABLE done (number INTEGER)")
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(run, range(5), chunksize=1))
