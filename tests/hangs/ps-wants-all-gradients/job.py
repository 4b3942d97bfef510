"""A parameter server averages the gradients of three trainers; one of them has fewer batches and ends."""
import json
import multiprocessing as mp
import os

TRAINERS = 3


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


class Server:
    def __init__(self, gradients, weights):
        self.gradients, self.weights, self.value = gradients, weights, 1.0

    def step(self):
        received = [self.gradients.get() for _ in range(TRAINERS)]  # CULPRIT
        self.value -= 0.01 * sum(received) / TRAINERS
        for queue in self.weights:
            queue.put(self.value)

    def run(self):
        note("role", role="process server")
        note("culprit", thread="MainThread")
        while True:
            self.step()


def train(rank, batches, gradients, weights):
    note("role", role=f"process trainer {rank}")
    if batches > 100:
        note("waiter")
    weight = 1.0
    for batch in range(batches):
        gradients.put(weight * (batch % 3))
        weight = weights.get()
    note("settled")


def main():
    note("root")
    note("role", role="main")
    note("waiter")
    gradients, weights = mp.Queue(), [mp.Queue() for _ in range(TRAINERS)]
    mp.Process(target=Server(gradients, weights).run, daemon=True).start()
    trainers = [
        mp.Process(target=train, args=(rank, 100_000 if rank else 60, gradients, weights[rank])) for rank in range(TRAINERS)
    ]
    for trainer in trainers:
        trainer.start()
    for trainer in trainers:
        trainer.join()


if __name__ == "__main__":
    main()
