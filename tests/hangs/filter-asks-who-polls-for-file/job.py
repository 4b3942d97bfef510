"""Rows go through a pipe to a filter, which asks a service for the prices of a day."""
import json
import multiprocessing
import os
import socket
import time


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def day_of(path):
    """The day's prices come from another team, some minutes after midnight."""
    while not os.path.exists(path):
        time.sleep(0.2)  # CULPRIT
    with open(path) as file:
        return json.load(file)


def prices(listening):
    truth("role", role="process prices")
    truth("culprit")
    while True:
        connection, _ = listening.accept()
        with connection:
            day = connection.recv(100).decode()
            truth("settled")
            connection.sendall(json.dumps(day_of(f"prices-{day}.json")).encode())


def keep(source, address):
    truth("role", role="process keep")
    truth("waiter")
    kept = 0
    while rows := os.read(source, 4096):
        with socket.create_connection(address) as connection:
            connection.sendall(b"2031-02-03")
            kept += len(rows) * len(json.loads(connection.recv(65536)))
    print(kept, flush=True)


def main():
    truth("root")
    truth("role", role="main")
    fork = multiprocessing.get_context("fork")
    listening = socket.create_server(("127.0.0.1", 0))
    fork.Process(target=prices, args=(listening,), daemon=True).start()
    source, sink = os.pipe()
    fork.Process(target=keep, args=(source, listening.getsockname()), daemon=True).start()
    listening.close()
    os.close(source)
    for number in range(1_000_000):
        os.write(sink, f"{number:9}\n".encode() * 400)


if __name__ == "__main__":
    main()
