"""Workers wait for permits that a process which accepts connections gives; main joins them all."""

import json
import multiprocessing
import os
import socket


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def listen(permits):
    say("role", role="process listen")
    server = socket.create_server(("127.0.0.1", 0))
    say("settled")
    while True:
        server.accept()[0].close()
        permits.release()


def work(permits):
    say("role", role="process work")
    while True:
        permits.acquire()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    permits = context.Semaphore(0)
    parts = [context.Process(target=listen, args=(permits,))]
    parts += [context.Process(target=work, args=(permits,)) for _ in range(3)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


if __name__ == "__main__":
    main()
