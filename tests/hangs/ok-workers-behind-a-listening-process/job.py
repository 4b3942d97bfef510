"""A process accepts connections and puts what it reads into the queue of workers; main joins them all."""

import json
import multiprocessing
import os
import socket


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def listen(port, pages):
    say("role", role="process listen")
    server = socket.create_server(("127.0.0.1", 0))
    port.send(server.getsockname()[1])
    while True:
        client, _ = server.accept()
        pages.put(client.recv(100))
        client.close()


def shrink(pages, small):
    say("role", role="process shrink")
    while True:
        small.put(pages.get()[:1])


def store(small):
    say("role", role="process store")
    for _ in range(6):
        small.get()
        say("progress")
    say("settled")
    while True:
        small.get()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    pages, small = context.Queue(), context.Queue()
    parts = [context.Process(target=listen, args=(theirs, pages)), context.Process(target=store, args=(small,))]
    parts += [context.Process(target=shrink, args=(pages, small)) for _ in range(2)]
    for part in parts:
        part.start()
    port = ours.recv()
    for _ in range(6):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"page")
    for part in parts:
        part.join()


if __name__ == "__main__":
    main()
