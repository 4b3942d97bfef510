"""A job of two: rank 0 sends batches over a TCP connection faster than rank 1 reads them, which computes on each piece.

Rank 0 says when it has sent more than fits into the connection.
"""

from __future__ import annotations

import os
import socket

BATCH = bytes(1 << 20)
PIECE = 1 << 17
ADDRESS = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def compute(piece: bytes) -> int:
    total = 0
    for number in range(20 * len(piece)):
        total = (total * 31 + number) % 1_000_003
    return total


def send() -> None:
    with socket.create_server(("0.0.0.0", ADDRESS[1])) as server, server.accept()[0] as connection:
        connection.setblocking(False)
        try:
            while True:
                connection.send(BATCH)
        except BlockingIOError:
            print("going", flush=True)
        connection.setblocking(True)
        while True:
            connection.sendall(BATCH)


def read() -> None:
    while True:
        try:
            connection = socket.create_connection(ADDRESS)
            break
        except ConnectionRefusedError:
            continue
    with connection:
        while piece := connection.recv(PIECE):
            compute(piece)


if os.environ["RANK"] == "0":
    send()
else:
    read()
