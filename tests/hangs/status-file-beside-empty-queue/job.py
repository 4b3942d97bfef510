import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import threading
import time

CTX = mp.get_context("fork")


class Status:
    def __init__(self):
        self.done = {}

    def write(self):
        last = -1
        while True:
            time.sleep(0.7)
            with open("status.json.new", "w") as file:
                json.dump({"done": len(self.done), "at": time.time()}, file)
            os.replace("status.json.new", "status.json")
            if len(self.done) == last:
                say("stands")
            last = len(self.done)


def work(orders, replies):
    while (order := orders.get()) is not None:
        if order % 7:
            replies.put((order, order * order))


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    status, orders, replies = Status(), CTX.Queue(), CTX.Queue()
    threading.Thread(target=status.write, daemon=True, name="status").start()
    for _ in range(2):
        CTX.Process(target=work, args=(orders, replies), daemon=True).start()
    for order in range(20):
        orders.put(order)
    say("settled")
    while len(status.done) < 20:
        order, square = replies.get()  # CULPRIT
        status.done[order] = square
