import json
import os
import signal
import sqlite3
import subprocess
import sys
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def connect():
    return sqlite3.connect("runs.db", timeout=60, isolation_level=None)


def states():
    with connect() as db:
        return [state for (state,) in db.execute("SELECT state FROM runs")]


def run(number):
    with connect() as db:
        db.execute("INSERT INTO runs VALUES (?, 'running')", (number,))
        time.sleep(1)
        if number == 1:
            say("culprit", dead=True)
            os.kill(os.getpid(), signal.SIGKILL)
        db.execute("UPDATE runs SET state = 'done' WHERE number = ?", (number,))


def main():
    say("root")
    say("role", role="main")
    with connect() as db:
        db.execute("CREATE TABLE runs (number INTEGER, state TEXT)")
    runs = [subprocess.Popen([sys.executable, __file__, str(number)]) for number in range(3)]
    while len(states()) < len(runs):
        time.sleep(0.5)
    say("settled")
    while "running" in states():
        time.sleep(1)
    print([one.wait() for one in runs])


if sys.argv[1:]:
    run(int(sys.argv[1]))
else:
    main()
