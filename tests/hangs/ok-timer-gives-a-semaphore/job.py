"""A clock gives a semaphore each time its timer's descriptor is due; a worker waits for the next turn."""

import ctypes
import json
import multiprocessing
import os
import struct


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def tick(turns):
    libc = ctypes.CDLL(None)
    timer = libc.timerfd_create(1, 0)
    libc.timerfd_settime(timer, 0, struct.pack("qqqq", 20, 0, 20, 0), None)
    while os.read(timer, 8):
        turns.release()


def work(turns):
    while True:
        turns.acquire()


def main():
    say("root")
    context = multiprocessing.get_context("fork")
    turns = context.Semaphore(0)
    processes = [context.Process(target=tick, args=(turns,)), context.Process(target=work, args=(turns,))]
    for process in processes:
        process.start()
    say("settled")
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
