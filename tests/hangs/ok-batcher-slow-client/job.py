"""A model server collects four requests for a batch; one of its clients asks only every few seconds, the others wait."""
import json
import multiprocessing as mp
import os
import time

SIZE = 4


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


def collect(requests):
    batch = []
    while len(batch) < SIZE:
        batch.append(requests.get())
    return batch


def serve(requests, answers):
    note("role", role="process server")
    while True:
        for client, value in collect(requests):
            answers[client].send(value * 2)


def ask(number, times, requests, answer):
    note("role", role=f"process client {number}")
    for value in range(times):
        if number == 2:
            time.sleep(3.5)
            note("progress")
        requests.put((number, value))
        answer.recv()


def main():
    note("root")
    note("role", role="main")
    requests, pipes = mp.Queue(), [mp.Pipe(duplex=False) for _ in range(SIZE)]
    clients = [
        mp.Process(target=ask, args=(number, 100_000, requests, pipes[number][0]))
        for number in range(SIZE)
    ]
    mp.Process(target=serve, args=(requests, [theirs for _, theirs in pipes]), daemon=True).start()
    for client in clients:
        client.start()
    note("settled")
    for client in clients:
        client.join()


if __name__ == "__main__":
    main()
