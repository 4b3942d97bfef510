"""A client asks a server over TCP, all the time, and sends much."""

import multiprocessing
import socket
import time

from orders import compute, ordered, say

SIZE = 1 << 16


def receive(connection, size):
    while size:
        got = connection.recv(min(size, SIZE))
        if not got:
            raise EOFError
        size -= len(got)


def serve(listener):
    connection, _ = listener.accept()
    while True:
        if ordered("unread"):
            time.sleep(1 << 20)  # WRONG unread
        receive(connection, 16 * SIZE)
        compute(2000)
        connection.sendall(b"done")


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
    server.start()
    asked = 0
    with socket.create_connection(listener.getsockname()) as connection:
        listener.close()
        while True:
            connection.sendall(bytes(16 * SIZE))
            receive(connection, 4)
            asked += 1
            if asked == 50:
                say(server=server.pid)


if __name__ == "__main__":
    main()
