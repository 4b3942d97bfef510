import json
import multiprocessing as mp
import os
import socket


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def embed(number, address):
    say("role", role=f"process embed-{number}")
    with socket.create_connection(address) as connection:
        if number == 1:
            say("settled")


        connection.sendall(bytes(20_000_000))


def main():
    say("root"), say("role", role="main"), say("culprit", thread="MainThread")
    server = socket.create_server(("127.0.0.1", 0))
    address = server.getsockname()
    ctx = mp.get_context("fork")
    workers = [ctx.Process(target=embed, args=(number, address)) for number in range(2)]
    # Each sends what it has found, and ends.
    for worker in workers:






        worker.start()
    for worker in workers:
        worker.join()  # CULPRIT
    print([server.accept()[0].recv(100) for _ in workers])


if __name__ == "__main__":
    main()
