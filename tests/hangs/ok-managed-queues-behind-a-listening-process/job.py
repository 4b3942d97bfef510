"""A process accepts connections and puts into the queue of a manager; workers wait for items of it; main joins them."""

import json
import multiprocessing
import os
import socket


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def listen(pages):
    say("role", role="process listen")
    server = socket.create_server(("127.0.0.1", 0))
    say("settled")
    while True:
        client, _ = server.accept()
        pages.put(client.recv(100))


def shrink(pages, small):
    say("role", role="process shrink")
    while True:
        small.put(pages.get()[:1])


def store(small):
    say("role", role="process store")
    while True:
        small.get()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    manager = context.Manager()
    pages, small = manager.Queue(), manager.Queue()
    parts = [context.Process(target=listen, args=(pages,)), context.Process(target=store, args=(small,))]
    parts += [context.Process(target=shrink, args=(pages, small)) for _ in range(2)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


if __name__ == "__main__":
    main()
