import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time
from multiprocessing.connection import Client, Listener

KEY = b"7c1f"


def work(k, address, key):
    say("role", role=f"process worker {k}")
    if key != KEY:
        say("culprit", thread="MainThread", dead=True)
    with Client(address, authkey=key) as master:
        master.send(k)
        while True:
            master.send(master.recv() ** 2)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    with Listener(("127.0.0.1", 0), authkey=KEY) as listener:
        for k in range(4):
            mp.Process(target=work, args=(k, listener.address, b"old" if k == 1 else KEY), daemon=True).start()
        crew = {}
        while len(crew) < 4:
            try:
                worker = listener.accept()
            except mp.AuthenticationError:
                say("settled")
                continue
            crew[worker.recv()] = worker
        for k, worker in crew.items():
            worker.send(k)


if __name__ == "__main__":
    main()
