"""An evaluator looks for newer checkpoints by their time of change; the trainer publishes them with the date of the release."""
import json
import multiprocessing as mp
import os
import tempfile
import time

RELEASED = 1_700_000_000


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


def changed_at(path):
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


class Watch:
    def __init__(self, path):
        self.path, self.seen = path, 0.0

    def next(self):
        looks = 0
        while changed_at(self.path) <= self.seen:
            looks += 1
            if looks == 8 and self.seen:
                note("culprit", thread="MainThread")
                note("settled")
            time.sleep(0.25)  # CULPRIT
        self.seen = changed_at(self.path)
        with open(self.path) as file:
            return json.load(file)


def evaluate(path, scores):
    note("role", role="process evaluator")
    watch = Watch(path)
    while True:
        state = watch.next()
        scores.send(sum(state) / len(state))


def publish(path, state):
    with open(f"{path}.new", "w") as file:
        json.dump(state, file)
    os.utime(f"{path}.new", (RELEASED, RELEASED))
    os.replace(f"{path}.new", path)


def train(path, scores):
    note("role", role="process trainer")
    for epoch in range(1000):
        time.sleep(0.3)
        publish(path, [epoch * 0.1] * 8)
        if epoch == 1:
            note("waiter")
        print(epoch, scores.recv(), flush=True)


def main():
    note("root")
    note("role", role="main")
    note("waiter")
    path = os.path.join(tempfile.mkdtemp(), "latest.json")
    ours, theirs = mp.Pipe(duplex=False)
    mp.Process(target=evaluate, args=(path, theirs), daemon=True).start()
    trainer = mp.Process(target=train, args=(path, ours))
    trainer.start()
    trainer.join()


if __name__ == "__main__":
    main()
