import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time


def serve(k, reload, ready):
    say("role", role=f"process server {k}")
    ready.put(k)
    while True:
        reload.wait()
        time.sleep(1.5)
        ready.put(k)
        while reload.is_set():
            time.sleep(0.05)


def main():
    say("root")
    say("role", role="main")
    reload, ready = mp.Event(), mp.Queue()
    servers = [mp.Process(target=serve, args=(k, reload, ready), daemon=True) for k in range(3)]
    for server in servers:
        server.start()
    for _ in servers:
        ready.get()
    say("settled")
    while True:
        time.sleep(4)
        reload.set()
        for _ in servers:
            ready.get()
        reload.clear()


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
