"""Workers wait for a condition, which a process notifies for each datagram it gets; main joins them all."""

import json
import multiprocessing
import os
import socket


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def listen(more, left):
    say("role", role="process listen")
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    say("settled")
    while server.recv(100):
        with more:
            left.value += 1
            more.notify()


def work(more, left):
    say("role", role="process work")
    while True:
        with more:
            more.wait_for(lambda: left.value)
            left.value -= 1


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    more, left = context.Condition(), context.RawValue("i", 2)
    parts = [context.Process(target=listen, args=(more, left))]
    parts += [context.Process(target=work, args=(more, left)) for _ in range(3)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


if __name__ == "__main__":
    main()
