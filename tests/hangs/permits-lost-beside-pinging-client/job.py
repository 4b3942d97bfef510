"""Requests wait for permits that nobody gives back; another client asks every second whether the server is up."""

import http.client
import http.server
import json
import multiprocessing
import os
import threading
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

SLOTS = threading.Semaphore(2)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/work":
            SLOTS.acquire()  # CULPRIT
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(port):
    say("role", role="process serve")
    say("culprit")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port.send(server.server_port)
    server.serve_forever()


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    return connection.getresponse().status


def ping(port):
    say("role", role="process ping")
    while ask(port, "/up") == 204:
        time.sleep(1)


def work(port):
    say("role", role="process work")
    say("waiter")
    ask(port, "/work")


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(theirs,), daemon=True).start()
    port = ours.recv()
    for _ in range(2):
        ask(port, "/work")
    context.Process(target=ping, args=(port,), daemon=True).start()
    workers = [context.Process(target=work, args=(port,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    say("settled")
    say("waiter")
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
