import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import socketserver
import threading
import time


class Shards:
    def __init__(self):
        self.changed, self.step = threading.Condition(), 0

    def get(self, step):
        with self.changed:
            while self.step < step:
                self.changed.wait()
        return b"rows\n"

    def advance(self):
        with self.changed:
            self.step += 1
            self.changed.notify_all()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(self.server.shards.get(int(line)))


def worker(port):
    import socket

    say("role", role="process worker")
    connection = socket.create_connection(("127.0.0.1", port)).makefile("rw")
    for step in range(1000):
        connection.write(f"{step}\n")
        connection.flush()
        connection.readline()


def main():
    say("root")
    say("role", role="main")
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.shards = True, Shards()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    mp.get_context("spawn").Process(target=worker, args=(server.server_address[1],), daemon=True).start()
    say("settled")
    while True:
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            sum(range(10000))
        time.sleep(1)
        server.shards.advance()


if __name__ == "__main__":
    main()
