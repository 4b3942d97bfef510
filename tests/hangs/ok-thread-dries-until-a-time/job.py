"""Main polls until a thread, which looks every four seconds whether its time has come, has dried the paint; a packer waits for that."""

import json
import multiprocessing
import os
import threading
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def pack(orders):
    say("role", role="process pack")
    print(orders.get(), flush=True)


def dry(finished):
    until = time.monotonic() + 400
    while time.monotonic() < until:
        time.sleep(4)
    finished.append("door")


def wait_for(finished):
    while True:
        if finished:
            return
        print("not dry yet", flush=True)
        time.sleep(1)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    orders, finished = context.Queue(), []
    context.Process(target=pack, args=(orders,), daemon=True).start()
    threading.Thread(target=dry, args=(finished,), daemon=True).start()
    say("settled")
    wait_for(finished)
    orders.put(finished)


if __name__ == "__main__":
    main()
