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

TAKEN = threading.Semaphore(0)


class Orders(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        for number in range(100):
            self.wfile.write(b"order %d\n" % number)
            say("culprit", thread=threading.current_thread().name)
            TAKEN.acquire()  # CULPRIT

    def do_POST(self):
        TAKEN.release()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


def serve(port):
    say("role", role="process shop")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Orders)
    port.send(server.server_port)
    server.serve_forever()


def main():
    say("root")
    say("role", role="main")
    here, there = mp.Pipe()
    mp.Process(target=serve, args=(there,), daemon=True).start()
    port = here.recv()
    stream = http.client.HTTPConnection("127.0.0.1", port)
    stream.request("GET", "/orders")
    orders = stream.getresponse()
    say("culprit", thread="MainThread")
    say("settled")
    while block := orders.read(512):  # CULPRIT
        for order in block.splitlines():
            told = http.client.HTTPConnection("127.0.0.1", port)
            told.request("POST", "/taken", body=order)
            told.getresponse().read()


if __name__ == "__main__":
    main()
