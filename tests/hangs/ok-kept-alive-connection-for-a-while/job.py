"""One keeps its connection to a server of one connection for a while, as it computes; another one waits for that server."""

import http.client
import http.server
import json
import multiprocessing
import os


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


def serve(port):
    say("role", role="process serve")
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    port.send(server.server_port)
    server.serve_forever()


def ask(connection):
    connection.request("GET", "/")
    return connection.getresponse().read()


def train(name, port, first, meet):
    say("role", role=f"process {name}")
    connection = http.client.HTTPConnection("127.0.0.1", port)
    if name == "early":
        ask(connection)
        first.set()
        while True:
            sum(number * number for number in range(3_000_000))
            say("progress")
            ask(connection)
    first.wait()
    say("settled")
    ask(connection)
    meet.wait()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(theirs,), daemon=True).start()
    port, first, meet = ours.recv(), context.Event(), context.Barrier(2)
    workers = [context.Process(target=train, args=(name, port, first, meet), name=name) for name in ("early", "late")]
    for worker in workers:
        worker.start()
    say("waiter")
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
