import json
import socket


class FeatureClient:
    """Connects with the first look-up and keeps what it has seen."""

    def __init__(self, address):
        self.address, self.stream, self.seen = address, None, {}

    def get(self, ids):
        missing = [i for i in ids if i not in self.seen]
        if missing:
            self.seen.update(zip(missing, self.ask(missing)))
        return [self.seen[i] for i in ids]

    def ask(self, ids):
        if self.stream is None:
            sock = socket.create_connection(self.address)
            self.stream = sock.makefile("rwb")
        self.stream.write(json.dumps(ids).encode() + b"\n")
        self.stream.flush()
        return json.loads(self.stream.readline())  # CULPRIT
