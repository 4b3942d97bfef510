"""A server at rest hands what it gets to consumers of a queue, which wait for it."""

import json
import multiprocessing as mp
import os
import socket


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def consume(jobs):
    say("role", role="process consumer")
    while True:
        print(jobs.get(), flush=True)


def main():
    say("root")
    say("role", role="main")
    context = mp.get_context("fork")
    jobs = context.Queue()
    for _ in range(3):
        context.Process(target=consume, args=(jobs,), daemon=True).start()
    server = socket.create_server(("127.0.0.1", 0))
    say("settled")
    while True:
        connection, _ = server.accept()
        jobs.put(connection.recv(100))
        connection.close()


if __name__ == "__main__":
    main()
