"""Two threads have the two slots of a semaphore made of files, and want another one; each attempt reads and counts anew."""

import json
import os
import sqlite3
import threading
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Slots:
    """The slots that are left, in a database."""

    def __init__(self, path, count):
        self.path, self.tries = path, []
        self.run("create table slots (left)")
        self.run("insert into slots values (?)", count)

    def run(self, text, *values):
        with sqlite3.connect(self.path, timeout=60) as database:
            return database.execute(text, values).rowcount

    def __enter__(self):
        while not self.run("update slots set left = left - 1 where left > 0"):
            self.tries = [*self.tries[-5:], os.urandom(2).hex()]
            time.sleep(0.2)  # CULPRIT

    def __exit__(self, *_):
        self.run("update slots set left = left + 1")


def cover(slots):
    with slots:  # CULPRIT
        return 1


def album(slots, both):
    with slots:
        both.wait()
        return cover(slots)


def main():
    say("root")
    say("role", role="main")
    say("culprit")
    slots, both = Slots("slots.db", 2), threading.Barrier(2, action=lambda: say("settled"))
    threads = [threading.Thread(target=album, args=(slots, both)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
