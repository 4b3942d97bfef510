"""A master at rest accepts commands over a unix socket; its actors wait for theirs, and everything sent was read."""

import json
import multiprocessing as mp
import os
import socket
import tempfile


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def act(commands):
    say("role", role="process actor")
    while True:
        commands.send(commands.recv() * 2)


def main():
    say("root")
    say("role", role="main")
    context, actors = mp.get_context("fork"), []
    for _ in range(3):
        here, there = context.Pipe()
        context.Process(target=act, args=(there,), daemon=True).start()
        actors.append(here)
    for actor in actors:
        actor.send(1)
    print([actor.recv() for actor in actors], flush=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.join(tempfile.mkdtemp(), "master"))
    server.listen()
    say("settled")
    while True:
        connection, _ = server.accept()
        for actor in actors:
            actor.send(int(connection.recv(10)))
            connection.sendall(b"%d\n" % actor.recv())
        connection.close()


if __name__ == "__main__":
    main()
