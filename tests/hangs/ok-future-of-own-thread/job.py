import json
import multiprocessing as mp
import os
import socket
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


CTX = mp.get_context("fork")


from concurrent.futures import Future


class Oven:
    """Bakes one order after the other, in a thread of its own."""

    def __init__(self):
        self.orders, self.ready = [], threading.Condition()
        threading.Thread(target=self.bake, name="oven", daemon=True).start()

    def bake(self):
        while True:
            with self.ready:
                self.ready.wait_for(lambda: self.orders)
                future, count = self.orders.pop(0)
            time.sleep(0.4 * count)
            future.set_result(count)

    def order(self, count):
        future = Future()
        with self.ready:
            self.orders.append((future, count))
            self.ready.notify()
        return future


def shop(conn):
    say("role", role="process shop")
    while True:
        conn.send(len(conn.recv()))


def main():
    say("root")
    say("role", role="main")
    ours, theirs = CTX.Pipe()
    CTX.Process(target=shop, args=(theirs,), daemon=True).start()
    oven = Oven()
    say("settled")
    for _ in range(20):
        ours.send("x" * oven.order(25).result())
        ours.recv()


main()
