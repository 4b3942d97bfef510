"""Thumbnails come from a local service: the first maker starts it and waits until it says that it is up."""
import json
import multiprocessing as mp
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def say(event, **more):
    with open(os.environ["CORPUS_TRUTH"], "a") as f:
        f.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")


def serve():
    say("role", role="subprocess job.py")
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    print("port", server.server_address[1], flush=True)
    print("up", file=sys.stderr, flush=True)
    server.serve_forever()


def up(service):
    port = int(service.stdout.readline().split()[1])
    say("settled")
    for line in service.stdout:  # CULPRIT
        if line.strip() == "up":
            return port


def make(pages):
    say("role", role="process make")
    say("culprit", thread="MainThread")
    service = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True)
    pages.put(up(service))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    say("root")
    say("role", role="main")
    pages = mp.get_context("fork").Queue()
    mp.get_context("fork").Process(target=make, args=(pages,)).start()
    print(pages.get())
