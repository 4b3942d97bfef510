import ctypes
import json
import multiprocessing as mp
import os
import socket
import struct


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def lose(connection):
    """From now on nothing arrives at this end: a filter of the kernel drops it, as a broken link would."""
    program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))
    connection.setsockopt(socket.SOL_SOCKET, 26, struct.pack("@HP", 1, ctypes.addressof(program)))


def serve(server):
    say("role", role="process reward-server")
    connection, _ = server.accept()
    for number in range(1000):
        if number == 20:
            lose(connection)
            connection.sendall(b"1.0")
            say("settled")
        elif number:
            connection.sendall(b"1.0")
        connection.recv(100)


def main():
    say("root"), say("role", role="main"), say("culprit", forgotten=True)
    server = socket.create_server(("127.0.0.1", 0))
    ctx = mp.get_context("fork")
    ctx.Process(target=serve, args=(server,), name="reward-server", daemon=True).start()
    with socket.create_connection(server.getsockname()) as connection:
        server.close()
        for number in range(1000):
            connection.sendall(b"sample %d" % number)
            connection.recv(100)


if __name__ == "__main__":
    main()
