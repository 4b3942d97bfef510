"""Gives out feature vectors by id: a line with ids in, a line with numbers out."""
import json
import random
import socket

from events import say


class FeatureTable:
    def __init__(self, rows, width):
        rng = random.Random(0)
        self.rows = [[round(rng.random(), 4) for _ in range(width)] for _ in range(rows)]

    def lookup(self, ids):
        return [self.rows[i % len(self.rows)] for i in ids]


class Connection:
    def __init__(self, sock):
        self.sock, self.rest = sock, b""

    def read_line(self):
        while b"\n" not in self.rest:
            data = self.sock.recv(65536)  # CULPRIT
            if not data:
                return None
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return line

    def write(self, obj):
        self.sock.sendall(json.dumps(obj).encode() + b"\n")


def serve(listener, path):
    say("role", role="process feature-server")
    say("culprit", thread="MainThread")
    table = FeatureTable(1000, 8)
    while True:
        sock, _ = listener.accept()
        with sock:
            conn = Connection(sock)
            while (line := conn.read_line()) is not None:
                conn.write(table.lookup(json.loads(line)))
