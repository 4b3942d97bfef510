import json
import os

import torch
import torch.multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


DEV = "cuda" if torch.cuda.is_available() else "cpu"
SIZE = 4


class Batcher:
    def __init__(self, requests, answers):
        self.requests, self.answers = requests, answers
        self.net = torch.nn.Linear(64, 8).to(DEV)

    def collect(self):
        batch = []
        while len(batch) < SIZE:
            batch.append(self.requests.get())  # CULPRIT
        return batch

    @torch.inference_mode()
    def run(self):
        while True:
            batch = self.collect()
            out = self.net(torch.tensor([b[1] for b in batch], device=DEV)).argmax(1).tolist()
            for (k, _), y in zip(batch, out):
                self.answers[k].send(y)


def server(requests, answers):
    say("role", role="process server")
    say("culprit", thread="MainThread")
    Batcher(requests, answers).run()


def client(k, n, requests, answer):
    say("role", role=f"process client {k}")
    if n > 100:
        say("waiter")
    for i in range(n):
        requests.put((k, [float(i % 5)] * 64))
        answer.recv()
    say("settled")


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ctx = mp.get_context("spawn")
    requests = ctx.Queue()
    pipes = [ctx.Pipe(duplex=False) for _ in range(SIZE)]
    clients = [mp.get_context("fork").Process(target=client, args=(k, 25 if k == 2 else 100_000, requests, pipes[k][0]))
               for k in range(SIZE)]
    for c in clients:
        c.start()
    ctx.Process(target=server, args=(requests, [p[1] for p in pipes]), daemon=True).start()
    for c in clients:
        c.join()


if __name__ == "__main__":
    main()
