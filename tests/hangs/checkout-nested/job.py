"""Each task of a pool takes a connection and then a second one for its audit; there are as many as there are threads."""

import json
import os
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


connections = queue.Queue()
for number in range(3):
    connections.put(number)
both = threading.Barrier(3)


def audit(invoice):
    say("culprit", thread=threading.current_thread().name)
    say("settled")
    connection = connections.get()  # CULPRIT
    time.sleep(0.1)
    connections.put(connection)


def settle(invoice):
    connection = connections.get()
    both.wait()
    audit(invoice)
    connections.put(connection)
    return invoice


def main():
    say("root")
    say("role", role="main")
    with ThreadPoolExecutor(3, thread_name_prefix="settle") as pool:
        for done in as_completed([pool.submit(settle, invoice) for invoice in range(12)]):
            print("settled", done.result())


if __name__ == "__main__":
    main()
