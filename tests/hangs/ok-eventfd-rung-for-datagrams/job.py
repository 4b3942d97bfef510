"""Main waits for datagrams and for its own wake-up socket; a child waits for an eventfd that main writes to."""

import json
import multiprocessing
import os
import selectors
import signal
import socket


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def count(bell):
    say("role", role="child of main")
    while True:
        os.eventfd_read(bell)


def main():
    say("root")
    say("role", role="main")
    bell = os.eventfd(0, os.EFD_SEMAPHORE)
    if not os.fork():
        count(bell)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    awake, asleep = socket.socketpair()
    asleep.setblocking(False)
    signal.set_wakeup_fd(asleep.fileno())
    signal.signal(signal.SIGTERM, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(server, selectors.EVENT_READ)
    selector.register(awake, selectors.EVENT_READ)
    say("settled")
    while awake not in [row.fileobj for row, _ in selector.select()]:
        os.eventfd_write(bell, len(server.recv(100)))


if __name__ == "__main__":
    main()
