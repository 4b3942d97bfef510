import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import socket
import socketserver
import threading
import time

subscribers = []


class Subscription(socketserver.StreamRequestHandler):
    def handle(self):
        subscribers.append(self.connection)
        for command in self.rfile:
            print(command)


def tick():
    while True:
        time.sleep(30)
        for connection in subscribers:
            connection.sendall(b"tick\n")


def serve(end):
    say("role", role="process serve")
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Subscription)
    server.daemon_threads = True
    threading.Thread(target=tick, daemon=True).start()
    end.send(server.server_address)
    server.serve_forever()


def main():
    say("root")
    say("role", role="main")
    ours, theirs = mp.Pipe()
    mp.Process(target=serve, args=(theirs,), daemon=True).start()
    connection = socket.create_connection(ours.recv())
    connection.sendall(b"subscribe\n")
    say("settled")
    for line in connection.makefile():
        print(line)


if __name__ == "__main__":
    main()
