"""A model server collects four requests for a batch; after one of its four clients is done, there are never four again."""
import json
import multiprocessing as mp
import os

SIZE = 4


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


def collect(requests):
    batch = []
    while len(batch) < SIZE:
        batch.append(requests.get())  # CULPRIT
    return batch


def serve(requests, answers):
    note("role", role="process server")
    note("culprit", thread="MainThread")
    while True:
        for client, value in collect(requests):
            answers[client].send(value * 2)


def ask(number, times, requests, answer):
    note("role", role=f"process client {number}")
    if times > 100:
        note("waiter")
    for value in range(times):
        requests.put((number, value))
        answer.recv()
    note("settled")


def main():
    note("root")
    note("role", role="main")
    note("waiter")
    requests, pipes = mp.Queue(), [mp.Pipe(duplex=False) for _ in range(SIZE)]
    clients = [
        mp.Process(target=ask, args=(number, 25 if number == 2 else 100_000, requests, pipes[number][0]))
        for number in range(SIZE)
    ]
    mp.Process(target=serve, args=(requests, [theirs for _, theirs in pipes]), daemon=True).start()
    for client in clients:
        client.start()
    for client in clients:
        client.join()


if __name__ == "__main__":
    main()
