import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import select
import socket
import struct
import time


def gateway(server):
    say("role", role="process gateway")
    say("culprit", thread="MainThread")
    events, clients, unread = select.epoll(), {}, {}
    events.register(server, select.EPOLLIN)
    while True:
        for fd, _ in events.poll():  # CULPRIT
            if fd == server.fileno():
                client, _ = server.accept()
                client.setblocking(False)
                clients[client.fileno()], unread[client.fileno()] = client, b""
                events.register(client, select.EPOLLIN | select.EPOLLET)
                continue
            data = unread[fd] + clients[fd].recv(16384)
            while len(data) >= 4 and len(data) >= 4 + (size := struct.unpack("!I", data[:4])[0]):
                data = data[4 + size :]
                clients[fd].sendall(b"ok")
            unread[fd] = data


def trainer(path):
    say("role", role="process trainer")
    say("waiter")
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    for step in range(100):
        frame = bytes(2000 * (step + 1))
        connection.sendall(struct.pack("!I", len(frame)) + frame)
        connection.recv(2)
        time.sleep(0.05)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    server = socket.socket(socket.AF_UNIX)
    server.bind("gateway.sock")
    server.listen()
    mp.Process(target=gateway, args=(server,), daemon=True).start()
    process = mp.Process(target=trainer, args=("gateway.sock",), daemon=True)
    process.start()
    time.sleep(2)
    say("settled")
    process.join()


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
