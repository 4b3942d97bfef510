"""A registry keeps one connection for each name, and tries again each second to accept when it has no descriptor left."""

import json
import multiprocessing
import os
import resource
import socket
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def serve(listener):
    say("role", role="process serve")
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    watched, spare, told = [], listener.dup(), False
    while True:
        try:
            watched.append(listener.accept()[0])
        except OSError:
            if not told:
                told = True
                spare.close()
                say("culprit")
                say("settled")
                spare = watched[-1].dup()
            time.sleep(1.0)  # CULPRIT
            continue
        watched[-1].sendall(b"%d" % len(watched))


def register(address):
    with socket.create_connection(address) as connection:
        return int(connection.recv(16))


def work(address, numbers):
    say("role", role="process work")
    while True:
        numbers.put(register(address))


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    numbers = context.Queue()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        context.Process(target=serve, args=(listener,), daemon=True).start()
    context.Process(target=work, args=(address, numbers), daemon=True).start()
    for _ in range(100):
        print(numbers.get())


if __name__ == "__main__":
    main()
