"""A dispatcher takes requests from a queue and hands them to workers, which answer the clients directly, after a while."""
import hashlib
import json
import multiprocessing as mp
import os
import time


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


def dispatch(requests, work, replies):
    note("role", role="process dispatcher")
    while True:
        client, value = requests.get()
        if value < 0:
            replies[client].send(None)
        work.put((client, value))


def answer(work, replies):
    note("role", role="process worker")
    while True:
        client, value = work.get()
        digest, ends = str(value).encode(), time.monotonic() + 40.0
        while time.monotonic() < ends:
            digest = hashlib.sha256(digest * 1000).digest()
        note("progress")
        replies[client].send(digest)


def ask(client, requests, reply):
    note("role", role=f"process client {client}")
    for value in range(1000):
        requests.put((client, value))
        reply.recv()


def main():
    note("root")
    note("role", role="main")
    ctx = mp.get_context("spawn")
    requests, work, pipes = ctx.Queue(), ctx.Queue(), [ctx.Pipe(duplex=False) for _ in range(2)]
    clients = [ctx.Process(target=ask, args=(number, requests, pipes[number][0])) for number in range(2)]
    replies = [theirs for _, theirs in pipes]
    for process in (ctx.Process(target=dispatch, args=(requests, work, replies), daemon=True),
                    ctx.Process(target=answer, args=(work, replies), daemon=True), *clients):
        process.start()
    note("settled")
    for client in clients:
        client.join()


if __name__ == "__main__":
    main()
