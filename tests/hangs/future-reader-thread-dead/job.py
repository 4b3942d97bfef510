import itertools
import json
import multiprocessing as mp
import os
import socket
import threading
from concurrent.futures import Future


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

CTX = mp.get_context("fork")


def server(sock):
    say("role", role="process server")
    say("waiter")
    with sock, sock.makefile("rw") as f:
        for n, line in enumerate(f):
            req = json.loads(line)
            if n == 25:                # the index is fresh: tell everybody
                f.write(json.dumps({"id": None, "event": "index-ready"}) + "\n")
            f.write(json.dumps({"id": req["id"], "result": len(req["text"].split())}) + "\n")
            f.flush()


class Client:
    def __init__(self, sock):
        self.file = sock.makefile("rw")
        self.ids, self.pending = itertools.count(), {}
        self.lock = threading.Lock()
        threading.Thread(target=self.replies, name="replies", daemon=True).start()

    def replies(self):
        for line in self.file:
            reply = json.loads(line)
            if reply["id"] is None:
                say("settled")
            with self.lock:
                future = self.pending.pop(reply["id"])
            future.set_result(reply["result"])

    def call(self, text):
        future = Future()
        with self.lock:
            rid = next(self.ids)
            self.pending[rid] = future
        self.file.write(json.dumps({"id": rid, "text": text}) + "\n")
        self.file.flush()
        return future


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    ours, theirs = socket.socketpair()
    p = CTX.Process(target=server, args=(theirs,), daemon=True)
    p.start()
    theirs.close()
    client, words = Client(ours), 0
    for k in range(200):
        words += client.call("lorem ipsum " * (k % 9)).result()  # CULPRIT
    print(words, "words")


if __name__ == "__main__":
    main()
