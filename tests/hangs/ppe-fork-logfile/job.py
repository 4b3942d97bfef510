import json
import logging
import multiprocessing as mp
import os
import select
import threading
import time
from concurrent.futures import ProcessPoolExecutor


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


log = logging.getLogger("train")


def ship(fd, go):
    say("role", role="process shipper")
    go.wait()
    with open("train.log", "wb") as f:
        while chunk := os.read(fd, 65536):
            f.write(chunk)


def monitor():
    for step in range(3000):
        log.info("step %06d %s", step, "loss=0.123 " * 12)


def tokenize(part):
    say("role", role=f"pool worker {mp.current_process()._identity[0]}")
    say("culprit", thread="MainThread", all=True)
    log.info("tokenizing part %d", part)  # CULPRIT
    return part


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("fork")
    r, w = os.pipe()
    go = ctx.Event()
    ctx.Process(target=ship, args=(r, go), daemon=True).start()
    os.close(r)
    log.addHandler(logging.StreamHandler(open(w, "w")))
    log.setLevel(logging.INFO)
    t = threading.Thread(target=monitor)
    t.start()
    while select.select([], [w], [], 0)[1]:
        time.sleep(0.1)
    with ProcessPoolExecutor(2, mp_context=ctx) as ex:
        parts = [ex.submit(tokenize, k) for k in range(2)]
        time.sleep(0.5)
        go.set()
        t.join()
        say("settled")
        print([p.result() for p in parts])


if __name__ == "__main__":
    main()
