import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import signal
import time


def serve(k, reload, ready):
    say("role", role=f"process server {k}")
    ready.put(k)
    while True:
        reload.wait()
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
    time.sleep(0.5)
    retired = servers.pop()
    os.kill(retired.pid, signal.SIGKILL)
    retired.join()
    say("culprit", thread="MainThread")
    say("culprit", pid=retired.pid, thread="MainThread", dead=True)
    for server in servers:
        say("waiter", pid=server.pid)
    say("settled")
    reload.set()  # CULPRIT


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
