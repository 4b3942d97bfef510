"""Clients ask a clock by datagrams; it answers one after the other, and takes its time for each."""

import json
import multiprocessing
import os
import socket
import time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def named(name):
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.bind(name)
    return found


def clock(ready):
    truth("role", role="process clock")
    own = named("clock")
    ready.set()
    while True:
        _, asks = own.recvfrom(100)
        time.sleep(15)
        own.sendto(time.ctime().encode(), asks)


def client(number):
    truth("role", role="process client")
    own = named(f"client {number}")
    for _ in range(20):
        own.sendto(b"?", "clock")
        if number == 0:
            truth("settled")
        own.recvfrom(100)


def main():
    truth("root")
    truth("role", role="main")
    ready = multiprocessing.Event()
    multiprocessing.Process(target=clock, args=(ready,), daemon=True).start()
    ready.wait()
    clients = [multiprocessing.Process(target=client, args=(number,)) for number in range(2)]
    for process in clients:
        process.start()
    for process in clients:
        process.join()


if __name__ == "__main__":
    main()
