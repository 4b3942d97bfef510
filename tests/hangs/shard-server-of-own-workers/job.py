import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import socketserver
import threading


class Shards:
    def __init__(self):
        self.changed, self.epoch = threading.Condition(), 0

    def get(self, epoch):
        with self.changed:
            while self.epoch < epoch:
                self.changed.wait()  # CULPRIT
        return b"rows\n"

    def advance(self):
        with self.changed:
            self.epoch += 1
            self.changed.notify_all()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(self.server.shards.get(int(line)))


def worker(port, batches):
    import socket

    say("role", role="process worker")
    say("culprit", thread="MainThread")
    connection = socket.create_connection(("127.0.0.1", port)).makefile("rw")
    for step in range(1000):
        connection.write(f"{step // 4}\n")
        connection.flush()
        batches.put(connection.readline())  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.shards = True, Shards()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    batches = mp.get_context("spawn").Queue(2)
    mp.get_context("spawn").Process(target=worker, args=(server.server_address[1], batches), daemon=True).start()
    threading.Timer(2, say, ("settled",)).start()
    for epoch in range(10):
        for _ in range(5):
            batches.get()  # CULPRIT
        server.shards.advance()


if __name__ == "__main__":
    main()
