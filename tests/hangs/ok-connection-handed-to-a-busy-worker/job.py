"""A server hands each accepted connection over to its worker, which answers one after the other, and takes its time."""

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


def worker(orders):
    truth("role", role="process worker")
    while True:
        _, fds, _, _ = socket.recv_fds(orders, 1, 1)
        with socket.socket(fileno=fds[0]) as asks:
            asks.recv(100)
            time.sleep(15)
            asks.sendall(time.ctime().encode())


def server(orders):
    truth("role", role="process server")
    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind("service")
        listens.listen()
        while True:
            asks, _ = listens.accept()
            with asks:
                socket.send_fds(orders, [b"!"], [asks.fileno()])


def client(number):
    truth("role", role="process client")
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as asks:
            while asks.connect_ex("service"):
                time.sleep(0.1)
            asks.sendall(b"?")
            if number == 0:
                truth("settled")
            asks.recv(100)


def main():
    truth("root")
    truth("role", role="main")
    gives, takes = socket.socketpair()
    multiprocessing.Process(target=worker, args=(takes,), daemon=True).start()
    multiprocessing.Process(target=server, args=(gives,), daemon=True).start()
    clients = [multiprocessing.Process(target=client, args=(number,)) for number in range(2)]
    for process in clients:
        process.start()
    for process in clients:
        process.join()


if __name__ == "__main__":
    main()
