import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import http.client
import multiprocessing as mp
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Catalog(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        say("culprit", thread=threading.current_thread().name)
        super().handle()  # CULPRIT

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def serve(end):
    say("role", role="process serve")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Catalog)
    end.send(server.server_address)
    server.serve_forever()


def main():
    say("root")
    say("role", role="main")
    ours, theirs = mp.Pipe()
    mp.Process(target=serve, args=(theirs,), daemon=True).start()
    connection = http.client.HTTPConnection(*ours.recv())
    connection.request("GET", "/shards")
    say("settled")
    print(connection.getresponse().read())


if __name__ == "__main__":
    main()
