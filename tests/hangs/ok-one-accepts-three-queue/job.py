"""A server of four processes; one at a time is in accept(), the others wait for their turn."""
import json
import multiprocessing
import os
import socket


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def serve(listening, turn, number):
    truth("role", role=f"process serve (ForkProcess-{number})")
    if number == 4:
        truth("settled")
    while True:
        with turn:
            connection, _ = listening.accept()
        with connection:
            connection.sendall(connection.recv(1000).upper())


def main():
    truth("root")
    truth("role", role="main")
    fork = multiprocessing.get_context("fork")
    turn = fork.Lock()
    listening = socket.create_server(("127.0.0.1", 0))
    workers = [fork.Process(target=serve, args=(listening, turn, number)) for number in range(1, 5)]
    for worker in workers:
        worker.start()
    listening.close()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
