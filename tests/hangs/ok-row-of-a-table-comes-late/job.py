"""Main polls a table for a row that its baker changes after half a minute."""

import json
import multiprocessing
import os
import sqlite3
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def unfinished(path):
    table = sqlite3.connect(path)
    return table.execute("select count(*) from orders where state != 'done'").fetchone()[0]


def finish(path):
    table = sqlite3.connect(path)
    table.execute("update orders set state = 'done'")
    table.commit()


def bake(path, ovens):
    say("role", role="process bake")
    for batch in range(80):
        time.sleep(5)
        say("progress")
    finish(path)
    print(ovens.get(), flush=True)


def wait_for(path):
    looks = 0
    while unfinished(path):
        looks += 1
        time.sleep(0.5)


def main():
    say("root")
    say("role", role="main")
    table = sqlite3.connect("orders.db")
    table.execute("create table orders(state)")
    table.execute("insert into orders values('new')")
    table.commit()
    context = multiprocessing.get_context("fork")
    ovens = context.Queue()
    context.Process(target=bake, args=("orders.db", ovens), daemon=True).start()
    say("settled")
    wait_for("orders.db")
    ovens.put("hot")


if __name__ == "__main__":
    main()
