import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import concurrent.futures
import multiprocessing as mp
import subprocess
import sys
import threading
import time

CTX = mp.get_context("fork")
HALT = threading.Event()


def beat():
    while not HALT.wait(2):
        say("progress")


def export():
    say("role", role="pool worker 0")
    say("culprit", thread="MainThread")
    threading.Thread(target=beat, daemon=True).start()
    tool = subprocess.Popen([sys.executable, "-c", "print('x' * 500000)"], stdout=subprocess.PIPE)
    say("settled")
    return tool.wait()  # CULPRIT


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=CTX) as pool:
        task = pool.submit(export)
        while not task.done():
            time.sleep(0.5)
