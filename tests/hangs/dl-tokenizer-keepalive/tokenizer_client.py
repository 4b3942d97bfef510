import json
import socket


class Tokenizer:
    """One connection a process, kept open between requests."""

    def __init__(self, path):
        self.path = path
        self.wire = None

    def __call__(self, texts):
        if self.wire is None:
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.path)
            self.wire = s.makefile("rw")
        self.wire.write(json.dumps(texts) + "\n")
        self.wire.flush()
        return json.loads(self.wire.readline())
