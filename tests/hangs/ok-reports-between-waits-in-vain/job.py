"""A reporter asks its server every six seconds, and waits for an event between that ends it and never comes."""

import json
import multiprocessing
import os
import socket
import threading


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def serve(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection):
    with connection, connection.makefile("rw") as lines:
        for line in lines:
            lines.write(line.upper())
            lines.flush()


def report(port):
    over = threading.Event()
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw") as lines:
        while not over.wait(5.8):
            lines.write("ping\n")
            lines.flush()
            lines.readline()


def main():
    say("root")
    context = multiprocessing.get_context("fork")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    processes = [context.Process(target=serve, args=(listener,)), context.Process(target=report, args=(port,))]
    for process in processes:
        process.start()
    say("settled")
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
