"""Workers wait at a barrier for main, which begins the next round when somebody connects."""

import json
import multiprocessing
import os
import socket


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(start, finish):
    say("role", role="process work")
    while True:
        start.wait()
        finish.wait()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    start, finish = context.Barrier(4), context.Barrier(4)
    for _ in range(3):
        context.Process(target=work, args=(start, finish), daemon=True).start()
    server = socket.create_server(("127.0.0.1", 0))
    say("settled")
    while True:
        server.accept()[0].close()
        start.wait()
        finish.wait()


if __name__ == "__main__":
    main()
