import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import select
import socket
import time


def gateway(server):
    say("role", role="process gateway")
    events, clients = select.epoll(), {}
    events.register(server, select.EPOLLIN)
    while True:
        for fd, _ in events.poll():
            if fd == server.fileno():
                client, _ = server.accept()
                client.setblocking(False)
                clients[client.fileno()] = client
                events.register(client, select.EPOLLIN | select.EPOLLET)
                continue
            try:
                while len(clients[fd].recv(16)) == 16:
                    pass
            except BlockingIOError:
                pass
            time.sleep(2)
            clients[fd].sendall(b"ok")


def trainer(path):
    say("role", role="process trainer")
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    while True:
        connection.sendall(bytes(1000))
        connection.recv(2)
        time.sleep(3)


def main():
    say("root")
    say("role", role="main")
    server = socket.socket(socket.AF_UNIX)
    server.bind("gateway.sock")
    server.listen()
    mp.Process(target=gateway, args=(server,), daemon=True).start()
    process = mp.Process(target=trainer, args=("gateway.sock",), daemon=True)
    process.start()
    say("settled")
    process.join()


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
