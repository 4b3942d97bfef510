import json
import multiprocessing as mp
import os
import socket
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


CTX = mp.get_context("fork")


class LiveServer(threading.Thread):
    def __init__(self):
        super().__init__(name="live-server")
        self.socket = socket.create_server(("127.0.0.1", 0))

    def run(self):
        say("culprit", thread="live-server")
        while True:
            conn, _ = self.socket.accept()  # CULPRIT
            with conn:
                conn.sendall(b"items: 0\n")


def main():
    say("root")
    say("role", role="main")
    server = LiveServer()
    server.start()
    with socket.create_connection(server.socket.getsockname()) as asks:
        print(asks.recv(100))
    say("culprit", thread="MainThread")
    say("settled")


main()
