"""A broker at rest: its subscribers have never sent anything, and anybody may connect and publish."""

import json
import multiprocessing as mp
import os
import select
import socket


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def subscribe(port):
    say("role", role="process subscriber")
    with socket.create_connection(("127.0.0.1", port)) as broker:
        while news := broker.recv(1000):
            print(news, flush=True)


def main():
    say("root")
    say("role", role="main")
    server = socket.create_server(("127.0.0.1", 0))
    for _ in range(3):
        mp.get_context("fork").Process(target=subscribe, args=server.getsockname()[1:], daemon=True).start()
    say("settled")
    clients = []
    while True:
        for ready in select.select([server, *clients], [], [])[0]:
            if ready is server:
                clients.append(server.accept()[0])
            elif news := ready.recv(1000):
                for client in clients:
                    client.sendall(news)
            else:
                clients.remove(ready)


if __name__ == "__main__":
    main()
