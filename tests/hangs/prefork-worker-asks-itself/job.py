"""A server of one worker, whose answers to some requests need another one; its parent asks it now and then how it is."""

import json
import os
import socket
import threading
import time


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def ask(address, question):
    with socket.create_connection(address) as connection:
        connection.sendall(question + b"\n")
        return connection.makefile("rb").readline()  # CULPRIT


def answer(address, question):
    if question == b"price\n":
        return b"4.5\n"
    truth("culprit")
    truth("settled")
    return b"total " + ask(address, b"price")


def serve(listens):
    truth("role", role="process worker")
    address = listens.getsockname()
    while True:
        connection, _ = listens.accept()
        with connection:
            connection.sendall(answer(address, connection.makefile("rb").readline()))


def probe(address):
    for question in (b"price", b"price", b"total"):
        time.sleep(0.3)
        ask(address, question)


def main():
    truth("root")
    truth("role", role="main")
    listens = socket.create_server(("127.0.0.1", 0))
    worker = os.fork()
    if not worker:
        serve(listens)
        os._exit(0)
    threading.Thread(target=probe, args=(listens.getsockname(),), daemon=True).start()
    os.waitpid(worker, 0)


if __name__ == "__main__":
    main()
