"""The parameter server's thread for trainer 1 dies of a KeyError; its connection stays open in a list."""
import json
import multiprocessing as mp
import os
import threading
from multiprocessing.connection import Client, Listener


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


class Server:
    def __init__(self, listener):
        self.listener, self.connections, self.weights = listener, [], {"w0": 0.0}

    def answer(self, connection):
        while True:
            name, gradient = connection.recv()
            self.weights[name] -= 0.1 * gradient
            connection.send(self.weights[name])

    def run(self):
        while True:
            connection = self.listener.accept()  # CULPRIT
            self.connections.append(connection)
            threading.Thread(target=self.answer, args=(connection,), daemon=True,
                             name=f"trainer-{len(self.connections)}").start()


def serve(address):
    note("role", role="process parameter server")
    note("culprit", thread="MainThread")
    listener = Listener(("127.0.0.1", 0))
    address.send(listener.address)
    Server(listener).run()


def train(number, address, together):
    note("role", role=f"process trainer-{number}")
    note("waiter")
    server = Client(address)
    for step in range(100):
        server.send(("w1" if number and step == 3 else "w0", 1.0))
        if number and step == 3:
            note("settled")
        server.recv()
        together.wait()


def main():
    note("root")
    note("role", role="main")
    note("waiter")
    ours, theirs = mp.Pipe(duplex=False)
    mp.Process(target=serve, args=(theirs,), daemon=True).start()
    address, together = ours.recv(), mp.Barrier(2)
    trainers = [mp.Process(target=train, args=(number, address, together)) for number in range(2)]
    for trainer in trainers:
        trainer.start()
    for trainer in trainers:
        trainer.join()


if __name__ == "__main__":
    main()
