import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import queue
import threading
import time

ORDERS = queue.Queue()


def poll_for_orders():
    while True:
        time.sleep(7)
        ORDERS.put("order")


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    threading.Thread(target=poll_for_orders, daemon=True).start()
    say("settled")
    while True:
        print(ORDERS.get(), flush=True)
