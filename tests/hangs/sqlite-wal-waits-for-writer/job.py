import json
import os
import multiprocessing
import sqlite3
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def index(path, ask, answer):
    say("role", role="process index")
    base = sqlite3.connect(path, isolation_level=None, timeout=100000)
    base.execute("BEGIN IMMEDIATE")
    base.execute("INSERT INTO item VALUES (1)")
    say("culprit")
    ask.put("vocabulary")
    words = answer.get()  # CULPRIT
    base.execute("COMMIT")
    print(words)


def main():
    say("root")
    say("role", role="main")
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "items.db")
    base = sqlite3.connect(path, isolation_level=None, timeout=100000)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("CREATE TABLE item (number)")
    context = multiprocessing.get_context("spawn")
    ask, answer = context.Queue(), context.Queue()
    context.Process(target=index, args=(path, ask, answer)).start()
    base.execute("SELECT count(*) FROM item").fetchall()
    ask.get()
    say("culprit")
    say("settled")
    base.execute("BEGIN IMMEDIATE")  # CULPRIT
    answer.put(["a"])


if __name__ == "__main__":
    main()
