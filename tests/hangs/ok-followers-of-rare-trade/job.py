import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import socket
import socketserver
import threading
import time


class Prices:
    """The last price, and a sign that it has changed."""

    def __init__(self):
        self.last, self.changed = 0.0, threading.Condition()

    def next(self):
        with self.changed:
            self.changed.wait()
            return self.last

    def set(self, price):
        with self.changed:
            self.last = price
            self.changed.notify_all()


PRICES = Prices()


class Desk(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            word, _, price = line.decode().strip().partition(" ")
            if word == "set":
                PRICES.set(float(price))
            self.wfile.write(f"{PRICES.next() if word == 'next' else 'ok'}\n".encode())


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def serve(pipe):
    say("role", role="process desk")
    with Server(("127.0.0.1", 0), Desk) as server:
        pipe.send(server.server_address)
        server.serve_forever()


def ask(address, line):
    with socket.create_connection(address) as connection:
        connection.sendall(line.encode() + b"\n")
        return connection.makefile().readline()


def follow(address):
    say("role", role="process follow")
    while True:
        ask(address, "next")
        say("progress")


def trade(address):
    say("role", role="process trade")
    for price in range(1000):
        time.sleep(4)
        ask(address, f"set {price}")


def main():
    say("root")
    say("role", role="main")
    near, far = mp.Pipe()
    server = mp.Process(target=serve, args=(far,), name="desk")
    server.start()
    address = near.recv()
    for target in (follow, follow, trade):
        mp.Process(target=target, args=(address,), name=target.__name__).start()
    say("settled")
    server.join()


if __name__ == "__main__":
    main()
