import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import threading
import time
from multiprocessing.connection import Client, Listener

KEY = b"7c1f"


def work(k, address, attempt):
    say("role", role=f"process worker {k}")
    if k == 1 and attempt < 2:
        raise SystemExit(1)
    with Client(address, authkey=KEY) as master:
        master.send(k)
        while True:
            master.send(master.recv() ** 2)


def keep_running(k, address):
    attempt = 0
    while True:
        worker = mp.Process(target=work, args=(k, address, attempt), daemon=True)
        worker.start()
        worker.join()
        attempt += 1
        if attempt == 1:
            say("settled")
        for _ in range(24):
            time.sleep(1)
            say("progress")


def main():
    say("root")
    say("role", role="main")
    with Listener(("127.0.0.1", 0), authkey=KEY) as listener:
        for k in range(3):
            threading.Thread(target=keep_running, args=(k, listener.address), daemon=True).start()
        crew = {}
        while len(crew) < 3:
            worker = listener.accept()
            crew[worker.recv()] = worker
        while True:
            for k, worker in crew.items():
                worker.send(k)
                worker.recv()
            say("progress")
            time.sleep(1)


if __name__ == "__main__":
    main()
