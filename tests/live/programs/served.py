"""The main process waits for an answer over a socket of its child, which sleeps: in a thread, or before it accepts."""

import multiprocessing
import socket
import socketserver
import sys
import time

from ready import say


class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(1)
        say(child=multiprocessing.current_process().pid)
        time.sleep(1000)  # STUCK thread


def serve_in_threads(port):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        port.send(server.server_address[1])
        server.serve_forever()


def never_accept(port):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port.send(server.getsockname()[1])
        say(child=multiprocessing.current_process().pid)
        time.sleep(1000)  # STUCK accept


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    serve = serve_in_threads if sys.argv[1] == "thread" else never_accept
    context.Process(target=serve, args=(there,), daemon=True).start()
    with socket.create_connection(("127.0.0.1", here.recv())) as client:
        client.sendall(b"?")
        client.recv(1)
